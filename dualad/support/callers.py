"""Whose code is running: the user's or an installed package's, so that an error can name a line that its reader can change."""

from __future__ import annotations

import dis
import importlib.machinery
import os
import re
import sys
import warnings
from collections.abc import Callable
from functools import cache, wraps
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

import numpy as np

PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OURS = tuple(os.path.join(PACKAGES, package, "") for package in ("dualad", "checkpoint"))
PYTHON = os.path.join(os.path.dirname(os.__file__), "")
NUMPY = os.path.join(os.path.dirname(np.__file__), "")
INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
EXTENSIONS = tuple(importlib.machinery.EXTENSION_SUFFIXES)
BETWEEN = {"dualad", "numpy", "python"}  # code that only hands on what somebody else asked for
#: packages that ask by `isinstance` whose an object is: what they hold, what they hand on, what they compile for
EXACT = {"astropy", "cupy", "dask", "jax", "numba", "pandas", "pint", "sparse", "torch", "unyt", "xarray"}
WAYS_OUT = (
    "give the call a rule of its own (dualad.primitive), differentiate the equation that it solves (dualad.implicit), write it with NumPy "
    "functions, or pass dualad.stop_gradient(x) where no derivative is needed"
)
SEEDS = "draw the numbers outside of what is traced, and pass them (inputs= of a chain, one row for each step)"


@cache
def owner(file):
    """Return the installed package that a source file belongs to: "dualad" for our two, "python" for its library, "" for the user's."""
    if file.startswith((*OURS, "<dualad")):
        return "dualad"
    if file.startswith(NUMPY):  # wherever it is installed
        return "numpy"
    for folder in INSTALLED:
        if folder in file:
            return file.rpartition(folder)[2].split(os.sep)[0].removesuffix(".py")
    if file.endswith((".pyx", ".pxd", ".pxi")):  # Cython names the file relative to its package's sources
        return file.split("/")[0]
    if file.startswith((PYTHON, "<frozen", "<__array_function__")):
        return "python"
    return ""


def owner_of(frame):
    return owner(frame.f_code.co_filename)


def outer_frames(frame):
    """Yield a frame and those that called it, each with the line that it is at."""
    while frame is not None:
        yield frame, frame.f_lineno
        frame = frame.f_back


def asking_frame(frame):
    """Return the frame, from this one outwards, that is neither ours nor NumPy's nor of Python's library; None if there is none."""
    while frame is not None and owner(frame.f_code.co_filename) in BETWEEN:  # of every operation that is traced
        frame = frame.f_back
    return frame


def asks_exactly(frame):
    """Return whether a frame is in a package to which a traced value is one, not what its value is; so are NumPy's matrices and masks."""
    while frame is not None and (package := owner(frame.f_code.co_filename)) == "python":  # functools.singledispatch
        frame = frame.f_back
    if frame is None:
        return False
    return package in EXACT or (package == "numpy" and frame.f_globals.get("__name__", "").startswith(("numpy.matrixlib", "numpy.ma")))


@cache
def is_of_optimizers(file):
    """Return whether a source file is of SciPy's optimizers, whose comparisons decide where they look next."""
    return owner(file) == "scipy" and "optimize" in file.split(os.sep)


def user_frame(frame):
    """Return the user's frame, from this one outwards; that of a package where there is none."""
    seen = frame
    while seen is not None and owner_of(seen):
        seen = seen.f_back
    return seen or asking_frame(frame)


def package_function(frames):
    """Return the function of an installed package that the user's code called, and where, if one asks here; else None twice.

    `frames` are pairs of a frame and its line, innermost first.
    """
    called: list[Any] = []
    for frame, number in frames:
        package = owner_of(frame)
        if package == "":
            return (name_of(called[::-1]), place(frame, number)) if called else (None, None)
        if package not in BETWEEN:
            called.append(frame)
    return None, None


def innermost(frame):
    """Return the function of the innermost package that asks here, and its root module if `dualad.adapt` may take it; else None twice."""
    inner = asking_frame(frame)
    package = "" if inner is None else owner_of(inner)
    if package == "":
        return None, None
    called = [inner]
    while (frame := asking_frame(called[-1].f_back)) is not None and owner_of(frame) == package:
        called.append(frame)
    root = inner.f_globals.get("__name__", "").partition(".")[0]
    of_python = inner.f_code.co_filename.endswith(".py") and root in sys.modules and root not in EXACT | {"scipy"}
    return name_of(called[::-1]), root if of_python else None


def name_of(frames):
    """Return the name of the first function of these frames that its package offers in public, else of the first."""
    called = [pair for frame in frames for pair in running_functions(frame)]
    for module, name in called:
        parts = module.split(".")
        for count in range(1, len(parts) + 1):
            if parts[count - 1].startswith("_"):
                break
            public = ".".join(parts[:count])
            if callable(getattr(sys.modules.get(public), name.split(".")[0], None)):
                return f"{public}.{name}"
    for module, name in called:
        if "<locals>" not in name:  # a wrapper of a decorator says nothing
            return f"{module}.{name}"
    return owner_of(frames[0])


def running_functions(frame):
    """Yield the module and the name of the function that a frame runs, and of functions that it closes over: those that it wraps."""
    module, called = frame.f_globals.get("__name__", ""), frame.f_code
    if module.startswith("scipy.stats.") and "<locals>" not in called.co_qualname:  # its distributions are objects
        kind = type(frame.f_locals.get("self"))
        yield from (("scipy.stats", f"{name}.{called.co_name}") for name, x in vars(sys.modules["scipy.stats"]).items() if type(x) is kind)
    yield module, called.co_qualname.removesuffix(".__init__")
    if "<locals>" in frame.f_code.co_qualname:
        for name in frame.f_code.co_freevars:
            wrapped = frame.f_locals.get(name)
            if isinstance(wrapped, FunctionType) and owner(wrapped.__code__.co_filename) not in BETWEEN | {""}:  # not the user's
                yield wrapped.__module__ or "", wrapped.__qualname__


def of_numpy(frame):
    """Return the public name of the function of NumPy that a frame is in, None for any other frame."""
    if owner_of(frame) != "numpy" or "." in frame.f_code.co_qualname:
        return None
    name = name_of([frame])
    return None if "._" in name else name


@cache
def brings_extensions(package, loaded):
    """Return whether a package has modules of compiled code among the `loaded` ones (their number, since more may come)."""
    return any(
        name.startswith(f"{package}.") and str(getattr(module, "__file__", None)).endswith(EXTENSIONS)
        for name, module in list(sys.modules.items())
    )


def compiled(frame):
    """Return whether a frame is of an installed package that brings compiled code, which no traced value comes through."""
    package = owner_of(frame)
    return package not in BETWEEN and package != "" and brings_extensions(package, len(sys.modules))


def place(frame, number):
    """Return where a frame stands, for a message."""
    return f"in {frame.f_code.co_name}, {frame.f_code.co_filename}:{number}"


def line():
    """Return the place of the innermost frame of the user's code, or of a package's where there is none."""
    frame = asking_frame(sys._getframe())
    return "place unknown" if frame is None else place(frame, frame.f_lineno)


def warn(message, frame):
    """Warn at the line that a frame is at."""
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, UserWarning, frame.f_code.co_filename, frame.f_lineno, registry=registry)


def operation(code, offset):
    """Return the name of the bytecode instruction at an offset."""
    return dis.opname[code.co_code[offset]] if 0 <= offset < len(code.co_code) else ""


def is_assertion(frame):
    """Return whether a frame is in ``numpy.testing``, which compares values and returns none."""
    return frame.f_globals.get("__name__", "").startswith("numpy.testing")


def is_item_assignment(frame):
    """Return whether the statement that a frame is at assigns to elements: ``a[i] = ...``."""
    return operation(frame.f_code, frame.f_lasti) in ("STORE_SUBSCR", "STORE_SLICE")


# --- errors that leave a derivative call ------------------------------------------------------------------------------------


def explain(error, refusal, objects):
    """Add to an error that leaves a derivative call what its reader can do, where it began in somebody else's code.

    Where NumPy or compiled code raised its own error in place of ours, ours is raised: `refusal`, the last error of a conversion. `objects`
    is the place where traced numbers were put into an object array, None if there were none.
    """
    if hasattr(error, "explained"):  # by an inner call
        return
    vars(error)["explained"] = True  # not by attribute, which an error may refuse (a frozen dataclass)
    steps = traced_back(error)
    deliberate = vars(error).get(ORIGIN, is_at_raise(*steps[0]))
    name, where = package_function((frame, number) for frame, number, _ in steps)
    cause = error.__cause__ if not (deliberate and is_ours(error)) else None
    while cause is not None and not is_ours(cause):
        cause = cause.__cause__
    if (
        cause is None
        and name is not None
        and str(refusal).startswith(f"{name} ")
        and (not deliberate or (not is_ours(error) and OF_DTYPES.search(str(error))))
    ):
        cause = refusal
        if deliberate:
            vars(cause).setdefault("__notes__", []).append(f"its own message: {error}")
    elif cause is None and type(error) is AttributeError and not deliberate and is_ours(error):
        cause = refusal  # compiled code went on with it pending, and Python then finds no attributes
    if cause is not None:
        vars(cause)["explained"] = True
        raise cause.with_traceback(error.__traceback__) from None
    notes = vars(error).setdefault("__notes__", [])
    ways_out = SEEDS if "SeedSequence" in str(error) else WAYS_OUT
    if name is not None and where not in str(error):
        notes.append(f"raised inside {name}, called {where}{'' if is_ours(error) else f'; if it was given traced values: {ways_out}'}")
    elif name is None and not deliberate and not is_ours(error) and issubclass(type(error), TypeError) and CLASSES.search(str(error)):
        where = next((place(frame, number) for frame, number, _ in steps if not owner_of(frame)), "place unknown")  # the user's
        notes.append(f"a traced value was given to code that takes plain ones, {where}: {ways_out}")
    if objects is not None and not deliberate and "read-only" in str(error):
        notes.append(
            f"np.asarray of a traced array ({objects}) is read-only: what is written would not reach the traced array. Write into "
            f"np.array(x, copy=True), or into dualad.array(x), which is x itself"
        )
    elif objects is not None and not deliberate:
        notes.append(
            f"traced numbers were put into an object array {objects}, for which NumPy does not have every function: make it with "
            f"np.stack([...]) or dualad.array([...]), and leave out np.asarray of a traced array"
        )


CLASSES = re.compile(r"\b(Dual|Var|Symbol)\b")  # of traced values, as other packages name them in their errors


OF_DTYPES = re.compile(r"\b(object|dtype|numeric|real)\b")  # what errors say of an array of objects, which a traced one became


def traced_back(error):
    """Return the frames that an error came through, innermost first, each with its line and the offset of its instruction."""
    steps, step = [], error.__traceback__
    while step is not None:
        steps.append((step.tb_frame, step.tb_lineno, step.tb_lasti))
        step = step.tb_next
    return steps[::-1]


def is_at_raise(frame, number, offset):
    """Return whether a frame is at a statement that raises."""
    return operation(frame.f_code, offset) in ("RAISE_VARARGS", "RERAISE")


def is_ours(error):
    """Return whether an error was raised in this package."""
    steps = traced_back(error)
    return ORIGIN in vars(error) or (bool(steps) and owner_of(steps[0][0]) == "dualad")


# --- tracebacks -------------------------------------------------------------------------------------------------------------

Given = ParamSpec("Given")
Made = TypeVar("Made")

ORIGIN = "raised_by_dualad"  # attribute of an error whose innermost frame was cut: whether a statement of ours raised it
MISTAKES = (AttributeError, NameError, KeyError, AssertionError, RecursionError)  # of ours, where no statement raises them


def trim(error):
    """Cut this package's frames out of the traceback of an error that leaves a verb, so that the user's lines are left.

    ``DUALAD_FULL_TRACEBACK=1`` in the environment keeps them; so does an error that is a mistake of this package.
    """
    if os.environ.get("DUALAD_FULL_TRACEBACK", "0") not in ("", "0"):
        return
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        trim_one(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def trimmed(verb: Callable[Given, Made]) -> Callable[Given, Made]:
    """Return a function that trims the errors which leave it."""

    @wraps(verb)
    def outermost(*args: Given.args, **kwargs: Given.kwargs) -> Made:
        try:
            return verb(*args, **kwargs)
        except Exception as error:
            trim(error)
            raise

    return outermost


def trim_one(error):
    """Cut the frames out of the traceback of one error, not of those behind it."""
    steps, kept, step = traced_back(error), [], error.__traceback__
    if steps and owner_of(steps[0][0]) == "dualad":
        deliberate = is_at_raise(*steps[0])
        if not deliberate and isinstance(error, MISTAKES):
            return
        vars(error)[ORIGIN] = deliberate
    caller = None
    while step is not None:
        package, following = owner_of(step.tb_frame), step.tb_next
        between = following is not None and (caller, package, owner_of(following.tb_frame)) == ("dualad", "numpy", "dualad")
        if package != "dualad" and not between:  # of NumPy that one of ours called for another one of ours
            kept.append(step)
        caller, step = package, following
    following = None
    for step in reversed(kept):
        step.tb_next = following
        following = step
    error.with_traceback(following)


# --- try blocks -------------------------------------------------------------------------------------------------------------


def is_handled(frame, last):
    """Return whether an error would be handled in a frame or those outside of it, up to one that runs `last`."""
    while frame is not None and frame.f_code is not last:
        if owner_of(frame) not in BETWEEN and any(start <= frame.f_lasti < stop for start, stop in try_ranges(frame.f_code)):
            return True
        frame = frame.f_back
    return False


@cache
def try_ranges(code):
    """Return the ranges of instructions of a function that stand in try blocks: from the table that CPython keeps of them."""
    known: Any = dis.Bytecode(code)
    return [
        (entry.start, entry.end)
        for entry in known.exception_entries  # but of a clean-up of a comprehension or generator, or of a with block
        if operation(code, entry.target) == "PUSH_EXC_INFO" and operation(code, entry.target + 2) != "WITH_EXCEPT_START"
    ]
