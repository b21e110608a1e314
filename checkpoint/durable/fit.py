"""Fit: a folder that makes an optimization restartable: results of finished evaluations come from it, an interrupted one resumes."""

import json
import os
from ast import literal_eval
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from time import monotonic, perf_counter
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar
from weakref import WeakValueDictionary

import numpy as np
import optree

from dualad.core.traced import Traced
from dualad.support.equality import nearly_same
from dualad.support.forks import lock_of

from ..storage import DamagedState, Storage
from ..storage.digests import digest, text_or_digest
from ..storage.memory import key_of
from ..support.checks import amount, folder_path, whole_number
from ..support.costs import COMPARED_SECONDS, COMPARED_SHARE
from .fit_folder import FitFolder, changed_parts
from .identity import dependency_digests, identity
from .journal import DurableJournal, DurableSession
from .session import AnotherCall, Mark, warn

P = ParamSpec("P")
R = TypeVar("R")

NEVER = 1e9  # seconds


class Fit(Storage):
    """A folder that makes an optimization restartable: the same script, run again, replays finished evaluations and goes on.

    ``fit(f)`` returns the result from the folder if any process has computed it before, and evaluates `f` otherwise. With ``storage=fit``
    a `chain` inside `f` resumes, too, as with ``Disk(path, resume=True)``: for chains of minutes and hours.
    A chain that takes less than `every` writes nothing.

    The process may be killed at any moment: finished results are found again. A warning names a damaged file; its content is recomputed.
    On a full disk results stay in main memory, with a warning, until there is room.

    A result belongs to the arguments and to everything that `f` reads: code, defaults, global and closed-over values, attributes that code
    names, functions and modules of yours, the settings of a verb such as `grad`. If it has changed since the last process, ``fit(f)``
    is refused, and the error says what; a change within a process makes new evaluations. State that `f` itself changes, such as counters
    and logs, does not count. What cannot be inspected (files, the environment, the clock, installed packages) shows in results: the first,
    second, fourth, eighth ... stored result that a process uses is recomputed and compared, up to rounding; of long evaluations the first
    step of their first chain. Give the rest, such as the version of a file, as token.

    Threads may evaluate at once, and forks of the process (`multiprocessing` with the start method ``"fork"``); a Fit cannot be pickled.

    Parameters
    ----------
    path : the folder, created if missing. For one process at a time and its forks, and for this fit alone.
    every : seconds of work that may be lost; as in `Disk`.
    keep : how many interrupted evaluations are kept; of more, the oldest are removed. The results of finished ones are all kept.
    token : what else the results depend on.

    Attributes
    ----------
    answered, made : evaluations whose result this object took from the folder, and that it computed.

    Raises
    ------
    TypeError, ValueError
        If an argument is of the wrong kind.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> import numpy as np
    >>> from scipy.optimize import minimize
    >>> from checkpoint import chain, value_and_grad
    >>> def misfit(p):
    ...     return (chain(lambda k, x, p: x + 0.01 * p * x, 1.0, p[0], steps=100) - 2.0) ** 2
    >>> folder = mkdtemp()
    >>> fit = Fit(folder)
    >>> result = minimize(fit(value_and_grad(misfit)), np.ones(1), jac=True)
    >>> fit.made == result.nfev
    True
    >>> again = Fit(folder)                                     # as in another process
    >>> result = minimize(again(value_and_grad(misfit)), np.ones(1), jac=True)
    >>> again.answered == result.nfev, again.made
    (True, 0)
    """

    durable = True

    def __init__(self, path: str | os.PathLike[str], *, every: float = 1.0, keep: int = 2, token: Any = None) -> None:
        self.path = folder_path(path, "Fit").absolute()
        self.every = amount(every, "seconds", where="Fit", argument="every")
        self.keep = whole_number(keep, where="Fit", argument="keep", least=0, hint="give the number of interrupted evaluations to keep")
        self.answered = self.made = 0
        self._token = text_or_digest(token, "Fit: the token")
        self._under_way: ContextVar[Evaluation | None] = ContextVar("evaluation", default=None)
        self._evaluations: list[Evaluation] = []  # under way

    def __repr__(self) -> str:
        return f"Fit({str(self.path)!r}): {self.answered:,} evaluations answered, {self.made:,} made"

    def __reduce__(self) -> Any:
        raise TypeError(
            "Fit: it cannot be pickled, because this process has locked its folder; use threads or forks of this process, or a Fit with "
            "its own folder in each process"
        )

    def __call__(self, f: Callable[P, R], name: str | None = None) -> Callable[P, R]:
        """The same function, whose results are kept.

        Parameters
        ----------
        f : its arguments are pytrees of plain data; its result is made of numbers and arrays in tuples, lists and dicts.
        name : by which it is known in the folder; its own by default. Several functions of one fit need several names.

        Returns
        -------
        function

        Raises
        ------
        ValueError
            If the folder is of another function with this name, or of another token, naming what differs.
        FileExistsError
            If there are other files in the folder.
        BlockingIOError
            If another process has the folder.
        """
        if not callable(f):
            raise TypeError(f"Fit: fit(f) takes the function that the optimizer calls, such as fit(value_and_grad(f)); got {f!r}")
        durable = DurableFunction(self, f, str(name or getattr(f, "__qualname__", type(f).__qualname__)))

        @wraps(f)
        def evaluated(*args: P.args, **kwargs: P.kwargs) -> R:
            given: list[Any] = optree.tree_leaves((args, kwargs))  # type: ignore[arg-type]
            if any(issubclass(type(leaf), Traced) for leaf in given):
                return f(*args, **kwargs)
            return durable(args, kwargs)  # type: ignore[no-any-return]

        return evaluated

    def open(self) -> "EvaluationSession":
        """A session for a chain of the evaluation under way."""
        evaluation = self._under_way.get() or (self._evaluations[0] if len(self._evaluations) == 1 else None)
        if evaluation is None and self._evaluations:
            raise ValueError(
                f"Fit: {len(self._evaluations)} evaluations are running, and it is unknown to which the chain in this thread belongs. "
                "Submit work with its context, pool.submit(contextvars.copy_context().run, work), or evaluate one point at a time"
            )
        if evaluation is None:
            raise ValueError(
                "Fit: a chain with storage=fit must run inside a function wrapped by the fit: give the optimizer fit(value_and_grad(f)), "
                "or give the chain storage=Disk(path, resume=True)"
            )
        return EvaluationSession(evaluation, NEVER if evaluation.is_comparison else self.every)


class DurableFunction:
    """A function whose results are in the folder of a fit.
    Keys: its name, what it read when it was registered, what of that has changed since (except its own counters), token, arguments."""

    def __init__(self, fit: Fit, f: Callable[..., Any], name: str) -> None:
        self._fit, self._f, self._name = fit, f, name
        self._folder = FitFolder.opened_at(fit.path)
        self._noted, self._own = self._folder.register(name, dependency_digests(f), fit._token)
        self._function = digest((name, fit._token, sorted(self._noted.items())), "Fit: the function")
        self._answered, self._due = 0, 1  # answers given, and which of them is to be compared
        self._read: dict[str, str] = {}  # what it read when there was no call under way
        self._calls: list[tuple[int, object]] = []  # under way: in which process, and itself
        self.lock = None

    def __call__(self, args: Any, kwargs: Any) -> Any:
        call = os.getpid(), object()
        try:
            with lock_of(self):
                # what another thread is about to change itself is no change
                if all(process != call[0] for process, _ in self._calls):
                    self._read = dependency_digests(self._f)
                self._calls.append(call)
                read = self._read
            return self._called(read, args, kwargs)
        finally:
            if call in self._calls:
                self._calls.remove(call)

    def _called(self, read: dict[str, str], args: Any, kwargs: Any) -> Any:
        fit, folder = self._fit, self._folder
        key = self._key(read, args, kwargs)
        found = folder.answer(key)
        if found is None:
            with folder.evaluating(key):
                found = folder.answer(key)  # of another thread
                if found is None:
                    return self._made(key, read, args, kwargs)
        outline, *leaves = found
        said = json.loads(outline)
        value = filled_in(said, leaves)
        self._answered += 1
        fit.answered += 1
        if self._answered >= self._due and self._same(key, said, value, read, args, kwargs):
            self._due = 2 * self._answered
        return value

    def _key(self, read: Mapping[str, str], args: Any, kwargs: Any) -> str:
        changed = [(part, read.get(part)) for part in changed_parts(self._noted, read, self._own)]
        return digest((self._function, sorted(changed), identity((args, kwargs), "Fit: an argument")), "Fit: an argument")

    def _made(self, key: str, read: Mapping[str, str], args: Any, kwargs: Any) -> Any:
        fit, folder = self._fit, self._folder
        evaluation = Evaluation(folder, key)
        started = perf_counter()
        value = self._evaluated(evaluation, read, args, kwargs)
        said, leaves = outline_of(value)
        said |= {"seconds": perf_counter() - started, "step": evaluation.step}
        if folder.keep(key, [json.dumps(said), *leaves], fit.every):
            folder.remove_evaluation(key)
        folder.prune(fit.keep, [other.key for other in fit._evaluations])
        fit.made += 1
        return value

    def _evaluated(self, evaluation: "Evaluation", read: Mapping[str, str], args: Any, kwargs: Any) -> Any:
        fit = self._fit
        before = fit._under_way.set(evaluation)
        fit._evaluations.append(evaluation)
        try:
            return self._f(*args, **kwargs)
        finally:
            fit._evaluations.remove(evaluation)
            fit._under_way.reset(before)
            own = changed_parts(read, dependency_digests(self._f), self._own)
            if own:
                self._own = self._own.union(own)  # another set: threads go through this one
                self._folder.note_own(self._name, self._own)

    def _same(self, key: str, said: Mapping[str, Any], value: Any, read: Mapping[str, str], args: Any, kwargs: Any) -> bool:
        """Compare an answer with what is computed now, all of it or the first step of its chain; return whether that was done."""
        folder, started = self._folder, monotonic()
        evaluation = Evaluation(folder, key, is_comparison=True)
        with folder.evaluating(key):
            try:
                if said["seconds"] >= COMPARED_SECONDS + COMPARED_SHARE * (started - folder.began) - folder.compared:
                    if not said["step"]:
                        return False
                    evaluation.is_probe = True
                made = self._evaluated(evaluation, read, args, kwargs)
            except Probed:
                if evaluation.step == said["step"]:
                    return True
                evaluation.is_probe = False  # perhaps only in the last digits
                made = self._evaluated(evaluation, read, args, kwargs)
            finally:
                folder.remove_evaluation(key)
                if said["seconds"] >= COMPARED_SECONDS:
                    folder.compared += monotonic() - started
        before, after = optree.tree_leaves(value), optree.tree_leaves(made)
        if len(before) != len(after) or not all(map(is_alike, before, after)):
            raise ValueError(
                f"Fit: {self._name} is not reproducible: evaluated again, it differs from the result in {self._fit.path}. Likely causes: a "
                "file, an attribute or random numbers that it reads. Use another folder, or name the dependency with token="
            )
        return True


class Probed(BaseException):
    """The first step of a chain has been made, which is all that was asked for. No handler of the user's is to stop it."""


class Evaluation:
    """An evaluation under way. `key`: of its result. `step`: digests of the arguments and x_1 of its first chain, once that is known.
    `is_comparison`: the result exists already. `is_probe`: it ends after the first step of its first chain."""

    def __init__(self, folder: FitFolder, key: str, is_comparison: bool = False) -> None:
        self.key, self.is_comparison, self.is_probe = key, is_comparison, False
        self.step: list[str] | None = None
        self.folder = folder
        self.path: Path | None = None
        self.busy: WeakValueDictionary[Path, EvaluationSession] = WeakValueDictionary()  # chains that run, by their folders
        self.lock = None

    def path_for(self, session: "EvaluationSession", chain: str) -> Path:
        """Return the folder of a chain: another one for each of several equal chains that run at once."""
        with lock_of(self):
            if self.path is None:
                self.path = self.folder.evaluation(self.key)
            path, number = self.path / chain, 1
            while path in self.busy or path in session.refused:
                number += 1
                path = self.path / f"{chain}-{number}"
            self.busy[path] = session
            return path

    def note(self, chain: str, first: str) -> None:
        if self.step is None and first:
            self.step = [chain, first]


class EvaluationJournal(DurableJournal):
    """A journal that notes the first step of the chain in its evaluation, or ends a probe with it."""

    session: "EvaluationSession"
    #: digests of x_N (at None), and of the outs of each step, that the folder of an equal chain gave: a sweep made again gives the same
    given: Mapping[int | None, str] = MappingProxyType({})

    def begin(self, steps: int | None) -> Any:
        evaluation = self.session.evaluation
        if evaluation.is_probe:
            evaluation.step = [self.name(steps), digest(self.step_again(0, self.initial), "Fit: a state")]
            raise Probed
        while True:
            try:
                done = super().begin(steps)
                if done is not None and self.given:
                    self.check_given({None: done[0], **self.rows_found()})
                break
            except AnotherCall:  # the folder is of a chain that differs in what its step closes over
                self.session.next()
            except (DamagedState, FileExistsError) as error:
                warn(f"Fit: {self.session.path} is damaged ({error}); its chain begins again")
                self.session.next()
        if done is not None:
            evaluation.note(self.name(steps), self.now.first)
            self.given = {**self.given, None: digest(done[0], "Fit: a state")}
        return done

    def name(self, steps: int | None) -> str:
        return chain_name(self.call | {"steps": steps})

    def end_forward(self, final: Any, last: list[Any], steps: int) -> None:
        self.session.evaluation.note(self.name(self.steps), self.now.first)
        self.check_given({None: final})
        super().end_forward(final, last, steps)

    def begins_elsewhere(self) -> bool:
        self.given = {**self.given, **{k: digest(row, "Fit: a row") for k, row in self.rows_found().items()}}
        self.session.next()
        return True

    def rows_found(self) -> dict[int | None, Any]:
        return {k: self.codec.decode(row) for k, row in self.session.log("first").read().items()}

    def add_row(self, k: int, leaves: list[Any]) -> None:
        if self.now.sweep == "first" and self.compared is None:
            self.check_given({k: leaves})
        super().add_row(k, leaves)

    def check_given(self, found: Mapping[int | None, Any]) -> None:
        for k in found.keys() & self.given.keys():
            self.check_same(self.given[k], found[k], *(("all steps", "x_N") if k is None else (f"step {k}", "row of outs")))


class EvaluationSession(DurableSession):
    """The states of one chain of an evaluation, in a subfolder named by the chain's arguments.
    A finished chain leaves its result there until the evaluation ends: another chain may still be interrupted."""

    journal = EvaluationJournal

    def __init__(self, evaluation: Evaluation, every: float) -> None:
        super().__init__(Path(), queue=None, every=every)
        self.evaluation, self.refused, self.resumes = evaluation, set[Path](), False

    def begin(self, call: Mapping[str, Any]) -> list[Any]:
        """Begin in a folder of its own; see `DurableStates.begin`."""
        self.path, self.resumes = self.evaluation.path_for(self, chain_name(call)), False
        return super().begin(call)

    def adopt(self, indices: Iterable[int], like: Any, marks: list[Mark]) -> list[DamagedState]:
        self.resumes = True
        return super().adopt(indices, like, marks)

    def next(self) -> None:
        """Leave the folder, which belongs to another chain, and try the next one."""
        self.refused.add(self.path)
        self.clear()

    def clear(self) -> None:
        super().clear()
        if self.evaluation.busy.get(self.path) is self:  # cleared again, it has left the folder to another chain
            del self.evaluation.busy[self.path]

    def finish(self) -> None:
        """Keep the last point, from which the same call is answered again, if there is one, perhaps of an earlier process."""
        if self._committed is None and not self.resumes:
            super().finish()
        else:
            self.clear()

    def keeps_result(self) -> bool:
        if self._committed is not None:
            self._committed.result()
        return self._committed is not None


def chain_name(call: Mapping[str, Any]) -> str:
    """Return the name of a chain's folder: a digest of its arguments."""
    return digest(sorted((name, str(value)) for name, value in call.items()), "Fit: a chain")


def outline_of(value: Any) -> tuple[dict[str, Any], list[Any]]:
    """Return what JSON can hold of a result, its containers with the numbers of its leaves in their places, and the leaves."""
    leaves, structure = optree.tree_flatten(value, none_is_leaf=True)
    outline = repr(optree.tree_unflatten(structure, range(len(leaves))))
    refused = [f"a {type(leaf).__name__}" for leaf in leaves if key_of([leaf]) is None]
    try:
        is_literal = optree.tree_structure(literal_eval(outline), none_is_leaf=True) == structure
    except (SyntaxError, ValueError):  # a named tuple, for instance
        is_literal = False
    if not is_literal:
        refused.append(outline)
    if refused:
        raise TypeError(
            f"Fit: the function returned {refused[0]}, which cannot be stored; return numbers and arrays, in tuples, lists and dicts"
        )
    orders: list[Any] = [None] * len(leaves)
    for i, leaf in enumerate(leaves):  # the order in memory decides on last digits
        if type(leaf) is np.ndarray and leaf.ndim > 1 and not leaf.flags.c_contiguous:
            orders[i] = np.argsort([-abs(stride) for stride in leaf.strides], kind="stable").tolist()
            leaves[i] = np.ascontiguousarray(leaf.transpose(orders[i]))
    return {"result": outline, "axes": orders}, leaves


def filled_in(said: Mapping[str, Any], leaves: Sequence[Any]) -> Any:
    """Return the result of which `outline_of` gave these two."""
    whole = [leaf if axes is None else leaf.transpose(np.argsort(axes)) for leaf, axes in zip(leaves, said["axes"], strict=True)]
    return optree.tree_map(whole.__getitem__, literal_eval(said["result"]))


def is_alike(kept: Any, made: Any) -> bool:
    if isinstance(kept, str | bytes | type(None)):
        return bool(kept == made)
    return nearly_same(kept, made)
