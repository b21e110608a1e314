"""The bits of compiled code: those of the emitted source as Python runs it, on every processor that multiplies and adds at once."""

import ctypes
import platform
import re

import numpy as np
import pytest
from emitted_examples import GRID, gray_scott, in_slices
from handmade import python_of
from interpreted import module_of as interpreted_module
from interpreted import traced

pytest.importorskip("llvmlite")

from llvmlite import binding

from checkpoint import grad, vjp
from dualad import jvp
from dualad.codegen import machine
from dualad.codegen.emit import emit
from dualad.codegen.fragments import STEPS
from dualad.codegen.machine import FUSES
from dualad.codegen.native import compiled
from dualad.codegen.to_llvm import translated
from dualad.ir.nodes import ArrayType
from dualad.loops.fuse import plan

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(11)
X, Y = RNG.standard_normal((2, 1003))  # some are left over
A, B = RNG.standard_normal((2, 37, 29))
SINGLE = X[:203].astype(np.float32)
Z = X[:171] + 1j * Y[:171]


def misfit(u, v, c):
    r = c * u * v - 0.25 * (u[::-1] - v) + 1.0
    return np.sum(r * r) / (1.0 + np.sum(np.sqrt(1.0 + r * r)))


#: name: (function, arguments); arithmetic alone, which Python and compiled code round alike
PROGRAMS = {
    "sums": (lambda x, y: (np.sum(x), np.sum(x * y), x @ y, np.mean(x), np.var(x), np.linalg.norm(y), np.prod(1.0 + 1e-3 * x)), (X, Y)),
    "sums in one loop": (lambda x, y: (np.sum(x * x), np.sum(x * y), np.max(x), np.sum(y > 0.5)), (X, Y)),
    "short sums": (lambda x, y: (np.sum(x), x @ y, np.sum(x[:9] * y[1:10]), np.sum(x[:3])), (X[:11], Y[:11])),
    "sums of parts": (lambda x, y: (np.sum(x[::2] * y[1::2]), np.sum(x[::-1]), np.sum(np.roll(x, 3) * y)), (X[:1002], Y[:1002])),
    "rows and columns": (lambda a, b: (np.sum(a * b, 0), np.sum(a * b, 1), np.sum(a[1:, 1:] * b[:-1, 2:].max()), a.var(1)), (A, B)),
    "products": (lambda a, b: (a @ b.T, a.T @ b, a @ b[0], a.T @ b[:, 0], a[:9, :11] @ b[:11]), (A[:13], B[:13])),
    "three axes": (lambda a: (np.sum(a, (0, 2)), np.sum(a, (1, 2)), np.sum(a, 1), np.einsum("ijk,ijk->j", a, a)), (A[:, None] * B[:5],)),
    "complex sums": (lambda z: (np.sum(z), np.sum(z[1:] + z[:-1].conj())), (Z,)),
    "complex products": (lambda z: (np.sum(z), np.sum(z * z.conj()), z @ z, np.sum(np.outer(z[:9], z), 1)), (Z,)),
    "single precision": (lambda x, y: (x * y + x, np.sum(x * y), x[:9] - 2.0 * y[:9] * x[:9]), (SINGLE, SINGLE[::-1])),
    "stencils": (lambda u, v, g, h: vjp(gray_scott, u, v)[1]((g, h)), (*GRID, GRID[0])),
    "slices": (lambda u, g: vjp(in_slices, u)[1](g), GRID[:2]),
    "gradient": (grad(misfit, argnums=(0, 1, 2)), (X, Y, 0.7)),
    "tangent": (lambda x, y: jvp(lambda x: x * x * y - y * x, (x,), (y,)), (X, Y)),
    "negative products": (lambda x, y: (np.sum(-(x * y)), np.sum(-x * y - x), y - -(x * y)), (X, Y)),
    "numbers": (lambda x, y: (x * y + y * y, x * y - x, x - x * y, -(x * y) + y, x * x - y * y), (1.1, np.float64(0.3))),
}  # fmt: skip
PROCESSORS = {"x86-64-v2": False, "x86-64-v3": True, "x86-64-v4": True}
X86 = platform.machine() in ("x86_64", "AMD64")


def emitted(name, fuses):
    """Return the emitted source of a program, with the kinds of the arguments of each part, and its arguments and results."""
    f, args = PROGRAMS[name]
    program = traced(f, *args)
    made = plan(program)
    made.fuses = fuses
    source = emit(made, STEPS)
    held = {made.nodes[value]: np.array(x) for value, x in zip(program.inputs, args, strict=True)}
    held.update((node, node.form.array) for node in source.constants)
    return source, held


def results(source, held, functions):
    """Return the bits of all that the parts of a source write."""
    held = dict(held)
    for function, part, nodes in zip(functions, parts(source), source.parts.values(), strict=True):
        arrays = [isinstance(parameter.type, ArrayType) for parameter in source.module.function(part).parameters]
        for node in nodes:
            held.setdefault(node, np.full(node.shape, np.nan if node.dtype.kind in "fc" else 0, node.dtype))
        with np.errstate(all="ignore"):
            function(*(held[node] if array else held[node][()] for node, array in zip(nodes, arrays, strict=True)))
    return {source.names[node]: held[node].tobytes() for nodes in source.parts.values() for node in nodes}


def parts(source):
    return list(source.functions.values())


def code_for(source, name, fuses):
    """Return the LLVM code of a part, to be called by its own name."""
    function, code = translated(source.module, name, fuses)
    return function.name, code.replace(f"define internal void @{function.name}(", f"define void @{function.name}(")


def target(processor):
    return binding.Target.from_triple(binding.get_process_triple()).create_target_machine(cpu=processor, features="", opt=3, jit=True)


def optimised(code, processor):
    made = target(processor)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "engine", lambda: (made, None))
        patch.setattr(binding, "get_process_triple", lambda: made.triple)
        return machine.optimised(code)


def entered(code, name, processor):
    """Return the function of arrays that runs a part, compiled for a processor."""
    engine = binding.create_mcjit_compiler(optimised(code, processor), target(processor))
    address = engine.get_function_address(name)

    def call(*args):
        status = np.zeros(1, np.int64)
        kinds = [ctypes.c_void_p, *(ctypes.c_void_p if isinstance(x, np.ndarray) else ctypes.c_double for x in args)]
        given = [x.ctypes.data if isinstance(x, np.ndarray) else float(x) for x in args]
        ctypes.CFUNCTYPE(None, *kinds)(address)(status.ctypes.data, *given)
        assert engine and status[0] == 0

    return call


@pytest.mark.parametrize("fuses", [False, True])
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "complex products"])
def test_bits_are_those_of_the_source_that_python_runs(name, fuses):
    """Products of complex numbers excepted, which are rounded as in NumPy's loops for arrays."""
    if not FUSES:
        pytest.skip("this processor has no instruction that multiplies and adds")
    source, held = emitted(name, fuses)
    module = interpreted_module(source.text)
    expected = results(source, held, [getattr(module, part) for part in parts(source)])
    assert results(source, held, [compiled(source.module, part) for part in parts(source)]) == expected
    if "choose(" not in source.text and "imum(" not in source.text:
        assert results(source, held, [python_of(source.text)[part] for part in parts(source)]) == expected
    assert ("multiply_add(" in source.text) >= (fuses and name in ("numbers", "tangent", "gradient", "stencils"))


@pytest.mark.skipif(not X86, reason="for processors of x86")
@pytest.mark.parametrize("name", PROGRAMS)
def test_bits_are_the_same_on_all_processors(name):
    """Of those that have the instruction; of older ones the bits are those of a multiplication and an addition."""
    features = binding.get_host_cpu_features()
    runs = {"x86-64-v2": True, "x86-64-v3": features.get("avx2") and FUSES, "x86-64-v4": features.get("avx512vl")}
    source, held = emitted(name, True)
    found = {}
    for processor, fuses in PROCESSORS.items():
        codes = [code_for(source, part, fuses) for part in parts(source)]
        for _, code in codes:
            assert not re.search(r"\b(contract|reassoc|fast|afn|arcp|nnan|ninf|nsz)\b|llvm\.fmuladd|vector\.reduce\.fadd", code)
            assert ("call double @llvm.fma.f64" in code) <= fuses
        if runs[processor]:
            found[processor] = results(source, held, [entered(code, part, processor) for part, code in codes])
    if runs["x86-64-v3"]:
        found["this one"] = results(source, held, [compiled(source.module, part) for part in parts(source)])
    by_processor = {processor: bits for processor, bits in found.items() if processor != "x86-64-v2"}
    assert all(bits == next(iter(by_processor.values())) for bits in by_processor.values())
    assert ("multiply_add(" not in source.text and name != "complex products") <= (
        len({tuple(bits.values()) for bits in found.values()}) == 1
    )


@pytest.mark.skipif(not X86, reason="reads x86 assembly")
def test_loops_with_sums_are_vectorised():
    """Vectors as wide as the processor has them, products fused, nothing left for scalar instructions but what a row leaves over."""
    width = {"x86-64-v2": "xmm", "x86-64-v3": "ymm", "x86-64-v4": "zmm"}
    for name, (f, args) in {
        "dot": (lambda x, y: x @ y, (X[:992], Y[:992])),
        "squares": (lambda x, y: np.sum((x - y) * x), (X[:992], Y[:992])),
        "rows": (lambda a, b: np.sum(a[:, :24] * b[:, :24], 1), (A, B)),
    }.items():
        made = plan(traced(f, *args))
        made.fuses = True
        source = emit(made)
        for processor, fuses in PROCESSORS.items():
            _, code = code_for(source, parts(source)[0], fuses)
            text = target(processor).emit_assembly(optimised(code, processor))
            packed = re.findall(r"v?(?:fmadd\d+|mul)pd\s.*", text)
            assert any(width[processor] in line for line in packed), (name, processor)
            assert any("vfmadd" in line for line in packed) == fuses
            assert not re.search(r"(mul|fmadd\d+)sd\s", text), (name, processor)
