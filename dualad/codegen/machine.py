"""Machine code of functions of the loop IR: optimised once, kept on disk (`cache`), entered as `entry` says."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Collection
from functools import cache

import numpy as np
from llvmlite import binding

from ..ir.nodes import ArrayType, Module
from ..loops.python_calls import guarded
from ..support.forks import compiler, held_across_forks
from .cache import stored
from .entry import OBJECTS, PYTHON, code_of_alone, code_of_enter, code_of_slots, entered, immortal
from .team import WORDS, code_of_team, helped, idlers
from .to_llvm import is_long, translated

if hasattr(binding, "ffi"):  # compilations of other libraries in other threads
    held_across_forks(binding.ffi.lib._lock._lock)

#: whether the processor has an instruction that multiplies and adds with one rounding
FUSES: bool = not binding.get_process_triple().startswith(("x86", "i686")) or bool(binding.get_host_cpu_features().get("fma"))

#: how LLVM optimises (3 would unroll more: up to five times as dear, and the code not faster) and emits; `LONG_FUNCTION` has the long
TUNING = {
    "speed_level": 2,
    "long_level": 1,
    "code_level": 3,
    "long_code_level": 1,
    "loop_vectorization": True,
    "slp_vectorization": False,
}

#: the functions of this process by digest; their machine code is never given back
made: dict[str, Callable] = {}
#: the digests of functions that several others call
alone: set[str] = set()


def compiled(
    module: Module, name: str, constants: dict[int, np.ndarray] | None = None, threads: int = 1, shared: Collection[str] = ()
) -> Callable:
    """Return a function of a module as machine code, with which other `threads` share its blocks.

    Arrays in place of parameters, by position, are no arguments of what is returned. Functions of the module that are `shared` with others
    are compiled once for all that call them.
    """
    constants = constants or {}
    with compiler():
        function, text = code(module, name, frozenset(constants), shared)
        contents = [(i, hashlib.sha256(array.tobytes()).hexdigest()) for i, array in constants.items()]
        digest = digest_of(f"{text}{contents}")
        if digest not in made:
            for i, array in constants.items():
                binding.add_symbol(f"constant_{digest}_{i}", immortal(array).ctypes.data)
            types = [parameter.type for i, parameter in enumerate(module.function(name).parameters) if i not in constants]
            if function.shares:
                types.append(TEAM)
            found = entered(name, types, address("slots", text, digest), function.loops, enter)
            made[digest] = guarded(found) if any(symbol.startswith("ufunc_python_") for symbol in function.module.symbols) else found
        return helped(made[digest], threads, team()[1]) if function.shares else made[digest]


def digest_of(text):
    return hashlib.sha256(f"{text}{TUNING}".encode()).hexdigest()[:24]


def address(name, text, digest):
    """Return where a function of LLVM code is, by its name in front of the digest."""
    holder = engine()
    text = text.replace("DIGEST", digest)
    content = stored(digest, lambda: emitter(code_level(text)).emit_object(optimised(text)))
    holder.add_object_file(binding.ObjectFileRef.from_data(content))
    return holder.get_function_address(f"{name}_{digest}")


@cache
def enter():
    """Return the address of what Python calls to enter any function."""
    text = code_of_enter()
    return address("enter", text, digest_of(text))


TEAM = ArrayType("int64", (WORDS,))


@cache
def team():
    """Return the address of what shares blocks with a team, and the function of a team and the number of a thread that helps it."""
    for name, function in idlers().items():
        binding.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
    text = code_of_team(binding.get_process_triple().partition("-")[0])
    digest = digest_of(text)
    share = address("share", text, digest)
    return share, entered("help", [TEAM, "int64"], engine().get_function_address(f"help_{digest}"), True, enter)


def code(module, name, constants=frozenset(), shared=()):
    """Return the translation of a function, and its LLVM code with that of how it is entered; DIGEST stands in its names."""
    function, text = translated(module, name, FUSES, {other: compiled_alone(module, other) for other in shared})
    add_symbols(function)
    return function, f"{text}\n{code_of_slots(function, module.function(name).parameters, constants)}"


def compiled_alone(module, name):
    """Return the translation of a function that is compiled by itself, under a name that others call it by."""
    function, text = translated(module, name, FUSES)
    text = f"{text}\n{code_of_alone(function)}"
    digest = digest_of(text)
    if digest not in alone:
        add_symbols(function)
        binding.add_symbol(f"alone_{digest}", address("alone", text, digest))
        alone.add(digest)
    function.name = f"alone_{digest}"
    return function


def add_symbols(function):
    """Let LLVM know where that is which a function refers to."""
    for symbol, place in function.module.symbols.items():
        binding.add_symbol(symbol, place)
    if function.shares:
        binding.add_symbol("dualad_share", team()[0])


def assembly(module: Module, name: str) -> str:
    """Return the assembly of what `compiled` makes."""
    with compiler():
        text = code(module, name)[1]
        return emitter(code_level(text)).emit_assembly(optimised(text))


def code_level(text):
    """Return the level at which LLVM code is emitted."""
    return TUNING["long_code_level" if is_long(text) else "code_level"]


@cache
def emitter(level):
    """Return what makes machine code."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_triple(binding.get_process_triple())
    features = binding.get_host_cpu_features().flatten()
    return target.create_target_machine(cpu=binding.get_host_cpu_name(), features=features, opt=level, jit=True)


@cache
def engine():
    """Return what holds machine code."""
    holder = immortal(binding.create_mcjit_compiler(binding.parse_assembly(""), emitter.__wrapped__(3)))
    for name in PYTHON:
        binding.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
    for name, thing in OBJECTS.items():
        binding.add_symbol(name, id(thing))
    return holder


def optimised(text):
    """Return the optimised module of LLVM code."""
    machine = emitter(code_level(text))
    module = binding.parse_assembly(text)
    module.triple, module.data_layout = binding.get_process_triple(), str(machine.target_data)
    long = is_long(text)
    tuning = binding.create_pipeline_tuning_options(speed_level=TUNING["long_level" if long else "speed_level"])
    tuning.loop_unrolling = tuning.loop_interleaving = not long
    tuning.loop_vectorization, tuning.slp_vectorization = TUNING["loop_vectorization"], TUNING["slp_vectorization"]
    builder = binding.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return module
