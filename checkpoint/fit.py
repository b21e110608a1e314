"""Fit: a folder for a whole fit, which outlives the process. Finished evaluations are answered from it; the one under way goes on."""

import atexit
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from math import inf
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any, ParamSpec, TypeVar

import numpy as np
import optree

from dualad.forks import lock_of
from dualad.traced import Traced

from .checks import whole_number
from .fingerprint import described, digest, readings
from .replay import nearly_same
from .resume import DurableSession
from .storage import DamagedState, Storage
from .storage.files import check_leaves, read_leaves, sync_file, write_leaves
from .storage.lock import Lock

__all__ = ["Fit"]

P = ParamSpec("P")
R = TypeVar("R")

MANIFEST, FORMAT = "fit.json", "fit of checkpoint, 1"
NAME = re.compile(r"([0-9a-f]{32})\.(result|evaluation)(\.tmp)?")
CHEAP = 1.0  # seconds: an evaluation that took less is made again, to see whether the function is the same
LOCKS: dict[Path, Lock] = {}  # of this process, until it ends


@atexit.register
def give_free() -> None:
    """Give all folders free."""
    while LOCKS:
        LOCKS.popitem()[1].release()


class Fit(Storage):
    """A folder for a whole fit: the same script, run again, walks through the evaluations that were finished and goes on.

    ``fit(f)`` is a function like `f` that answers from the folder what it was asked before, by any process, and keeps what it is asked
    for the first time. Optimizers ask in the same order when they are run again, so they come quickly to where they were stopped. With
    ``storage=fit``, a `chain` inside of `f` keeps its states in a subfolder of the evaluation under way, as ``Disk(path, resume=True)``
    does, so that this one too goes on where it was stopped. That is for chains of minutes and hours; a chain of a compiled step is
    faster without, and a chain that takes less than `every` writes nothing.

    Kill it at any moment. Whatever was finished is found again: a result is written as soon as it is there, and forced onto the disk
    itself once in a while (`every`). A damaged file is named in a warning, and what was in it is computed again.

    Whether `f` is the same function is judged by its code and by the numbers, arrays and functions that it reads: what differs is
    named, and the call refused. What else it may depend on shows in its results: the first evaluation that is answered in a process,
    if it took less than a second, is made again and compared. Say the rest, such as the version of a file that it reads, in the
    token.

    Parameters
    ----------
    path : str or Path
        The folder, made if it is not there. For one process at a time, and for this fit alone.
    every : float
        Seconds of work that may be lost; as in `Disk`.
    keep : int
        How many evaluations that were interrupted are kept; when there are more, the oldest go. Finished ones are all kept: their
        results only.
    token : pytree of plain values, optional
        What else the results depend on.

    Attributes
    ----------
    answered, made : int
        Evaluations answered from the folder, and made, by this object.

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

    resume = True

    def __init__(self, path: str | os.PathLike[str], *, every: float = 1.0, keep: int = 2, token: Any = None) -> None:
        try:
            self.path = Path(path).absolute()
        except TypeError:
            raise TypeError(f"Fit: path must be the name of a folder, got {path!r}") from None
        if type(every) is bool or not issubclass(type(every), int | float) or not 0 <= every < inf:
            raise ValueError(f"Fit: every must be a number of seconds, not negative and finite, got {every!r}")
        self.every = every
        self.keep = whole_number(keep, where="Fit", argument="keep", least=0, hint="give the number of interrupted evaluations to keep")
        self.answered = self.made = 0
        self._token = described(token, "Fit: the token")
        self._under_way: ContextVar[Path | None] = ContextVar("evaluation", default=None)
        self._folders: list[Path] = []  # of the evaluations under way
        self.lock = None
        self._compared = False
        self._synced = -inf

    def __repr__(self) -> str:
        return f"Fit({str(self.path)!r}): {self.answered:,} evaluations answered, {self.made:,} made"

    def __call__(self, f: Callable[P, R], name: str | None = None) -> Callable[P, R]:
        """The same function, whose results are kept.

        Parameters
        ----------
        f : function
            Its arguments are pytrees of plain data; its result is made of numbers and arrays in tuples, lists and dicts.
        name : str, optional
            By which it is known in the folder; its own by default. Several functions of one fit need several names.

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
            raise TypeError(f"Fit: give the function that the optimizer is to call, fit(value_and_grad(f)), got {f!r}")
        name = str(name or getattr(f, "__qualname__", type(f).__qualname__))
        self._open()
        self._register(name, readings(f, "Fit: the function"))

        @wraps(f)
        def evaluated(*args: P.args, **kwargs: P.kwargs) -> R:
            given: list[Any] = optree.tree_leaves((args, kwargs))  # type: ignore[arg-type]
            if any(isinstance(leaf, Traced) for leaf in given):
                return f(*args, **kwargs)
            key = digest((name, args, kwargs), "Fit: an argument")
            found = self._answer(key)
            if found is not None and not self._is_to_be_compared(found[1]):
                self.answered += 1
                return found[0]  # type: ignore[no-any-return]
            started = perf_counter()
            with self._evaluation(key):
                value = f(*args, **kwargs)
            seconds = perf_counter() - started
            if found is not None:
                self._compare(name, found[0], value)
                self.answered += 1
                return found[0]  # type: ignore[no-any-return]
            self._keep(key, value, seconds)
            self.made += 1
            return value

        return evaluated

    def open(self) -> "EvaluationSession":
        """A session for a chain of the evaluation under way.

        Returns
        -------
        EvaluationSession
        """
        folder = self._under_way.get() or (self._folders[0] if len(self._folders) == 1 else None)
        if folder is None:
            raise ValueError(
                "Fit: a chain with storage=fit runs inside of a function that the fit evaluates: give the optimizer fit(value_and_grad(f)) "
                "instead of value_and_grad(f), or the chain Disk(path, resume=True)"
            )
        return EvaluationSession(folder, self.every)

    # --------------------------------------------------------------------------------------------------- the folder

    def _open(self) -> None:
        """Make the folder, and lock it for this process, until it ends."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        names = set(os.listdir(self.path))
        others = sorted(name for name in names if not NAME.fullmatch(name) and name not in (MANIFEST, f"{MANIFEST}.tmp", "lock"))
        if others:
            raise FileExistsError(f"Fit: {self.path} holds other files ({', '.join(others[:3])}); give it a folder of its own")
        lock = LOCKS.get(self.path)
        if lock is None or not lock.held():
            lock = Lock(self.path / "lock")
            lock.acquire()
            LOCKS[self.path] = lock
            for part in self.path.glob("*.tmp"):  # of a process that was ended while it wrote
                part.unlink()

    def _register(self, name: str, read: Mapping[str, str]) -> None:
        """Compare a function with the one of that name which the folder has, or note it."""
        path = self.path / MANIFEST
        known: dict[str, Any] = {"format": FORMAT, "token": self._token, "functions": {}}
        if path.exists():
            try:
                known = json.loads(path.read_bytes())
                if known["format"] != FORMAT:
                    raise ValueError
                functions = known["functions"]
            except (ValueError, KeyError, TypeError):
                raise DamagedState(f"Fit: {path} is damaged, or was not made here; remove the folder to begin anew") from None
            there, here = {"token": known["token"]} | functions.get(name, read), {"token": self._token} | dict(read)
            differing = [part for part in {**there, **here} if there.get(part) != here.get(part)]
            if differing:
                raise ValueError(
                    f"Fit: {self.path} is of another function {name} than this one; it differs in: {', '.join(differing)}. Give "
                    f"another folder, or each function a name of its own, fit(f, name=...)"
                )
            if name in functions:
                return
        known["functions"][name] = dict(read)
        temporary = path.with_name(f"{MANIFEST}.tmp")
        temporary.write_text(json.dumps(known))
        sync_file(temporary)
        os.replace(temporary, path)

    @contextmanager
    def _evaluation(self, key: str) -> Iterator[None]:
        """Let the chains of an evaluation know their folder, which is removed if it is finished."""
        folder = self.path / f"{key}.evaluation"
        before = self._under_way.set(folder)
        self._folders.append(folder)
        try:
            yield
        finally:
            self._folders.remove(folder)
            self._under_way.reset(before)

    def _keep(self, key: str, value: Any, seconds: float) -> None:
        """Write a result, and remove what is of no more use."""
        leaves: list[Any] = []
        shape = json.dumps({"result": outlined(value, leaves), "seconds": seconds})
        check_leaves(leaves)
        sync = monotonic() - self._synced >= self.every
        write_leaves(self.path / f"{key}.result", 0, [shape, *leaves], sync=sync, label=key)
        self._synced = monotonic() if sync else self._synced
        with lock_of(self):
            shutil.rmtree(self.path / f"{key}.evaluation", ignore_errors=True)
            self._prune()

    def _prune(self) -> None:
        """Remove the oldest of the evaluations that were interrupted."""
        left = [path for path in self.path.glob("*.evaluation") if path not in self._folders]
        for path in sorted(left, key=lambda path: path.stat().st_mtime)[: max(len(left) - self.keep, 0)]:
            shutil.rmtree(path, ignore_errors=True)

    def _answer(self, key: str) -> tuple[Any, float] | None:
        """What the folder says: the result and the seconds that it took."""
        path = self.path / f"{key}.result"
        if not path.exists():
            return None
        try:
            shape, *leaves = read_leaves(path, 0, key)
            found = json.loads(shape)
            return filled_in(found["result"], iter(leaves)), found["seconds"]
        except DamagedState as error:
            warnings.warn(f"{str(error).replace('Disk: state 0', 'Fit: a result', 1)}; it is computed again", RuntimeWarning, stacklevel=3)
            return None

    def _is_to_be_compared(self, seconds: float) -> bool:
        """Return whether this is the first evaluation to be answered, and a cheap one."""
        compared, self._compared = self._compared or self.made > 0, True
        return not compared and seconds < CHEAP

    def _compare(self, name: str, kept: Any, made: Any) -> None:
        before, after = optree.tree_leaves(kept), optree.tree_leaves(made)
        if len(before) != len(after) or not all(map(alike, before, after)):
            raise ValueError(
                f"Fit: {name} gives another result than the one that {self.path} has for the same arguments: something that it reads has "
                "changed (a file, an attribute, random numbers). Give another folder, or say what it depends on with token="
            )


class EvaluationSession(DurableSession):
    """The states of one chain of an evaluation, in a subfolder by what the chain is called with.

    A chain that is done stays, without its states, until the whole evaluation is: its results are needed if another chain of it is
    interrupted.
    """

    def __init__(self, folder: Path, every: float) -> None:
        super().__init__(folder, queue=None, every=every)
        self._evaluation = folder

    def begin(self, call: Mapping[str, Any]) -> list[Any]:
        """As `KeptSession.begin`, in a folder of its own."""
        self.path = self._evaluation / digest(sorted((name, str(value)) for name, value in call.items()), "Fit: a chain")
        return super().begin(call)

    def finish(self) -> None:
        """Leave what is needed to answer the same call again, if it took long enough to have been written."""
        if self._committed is None:
            super().finish()
        else:
            self.clear()

    @property
    def answers(self) -> bool:
        """Whether there is to be a last point, with the result."""
        return self._committed is not None


def outlined(value: Any, leaves: list[Any]) -> Any:
    """The containers of a result, in values that go into JSON; its leaves are appended."""
    if isinstance(value, tuple | list) and type(value) in (tuple, list):
        return [type(value).__name__, *[outlined(part, leaves) for part in value]]
    if type(value) is dict and all(type(key) is str for key in value):
        return ["dict", list(value), *[outlined(part, leaves) for part in value.values()]]
    if not issubclass(type(value), float | int | complex | str | bytes | np.ndarray | np.generic | type(None)):
        raise TypeError(
            f"Fit: the function returned a {type(value).__name__}, which cannot be kept: return numbers and arrays, in tuples, lists and "
            "dicts with texts as keys"
        )
    leaves.append(value)
    return "leaf"


def filled_in(outline: Any, leaves: Iterator[Any]) -> Any:
    """The result again."""
    if outline == "leaf":
        return next(leaves)
    kind, *parts = outline
    if kind == "dict":
        return {key: filled_in(part, leaves) for key, part in zip(parts[0], parts[1:], strict=True)}
    made = [filled_in(part, leaves) for part in parts]
    return tuple(made) if kind == "tuple" else made


def alike(kept: Any, made: Any) -> bool:
    """Return whether two leaves are equal up to rounding."""
    if isinstance(kept, str | bytes | type(None)):
        return bool(kept == made)
    return nearly_same(kept, made)
