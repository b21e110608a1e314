"""Functions without derivative: questions, positions, text and files; and those refused, with the reason.

Functions whose results are elements of their arguments (`unique`, `intersect1d`) have derivatives: see `sets`.
"""

from __future__ import annotations

import numpy as np

from .kinds import constant, primitive, refused

__all__ = ["evaluate", "existing"]


@primitive
def evaluate(fn, *args, **kwargs):
    """Return ``fn(*args, **kwargs)`` of the plain values: what a derivative does not pass through."""
    return fn(*args, **kwargs)


def existing(namespace, names):
    """Return the functions called `names` that this version of NumPy has."""
    return [getattr(namespace, name) for name in names.split() if hasattr(namespace, name)]


TEXT = """str_len count find rfind index rindex startswith endswith isalnum isalpha isdecimal isdigit islower isnumeric isspace
          istitle isupper _center _expandtabs _expandtabs_length _ljust _rjust _zfill _slice _replace _partition _partition_index
          _rpartition _rpartition_index _lstrip_chars _lstrip_whitespace _rstrip_chars _rstrip_whitespace _strip_chars _strip_whitespace"""


# --- the table --------------------------------------------------------------------------------------------------------------

# fmt: off
constant(evaluate)
constant(*existing(np, "array_equiv isneginf isposinf"))                                           # questions
constant(*existing(np, "argwhere flatnonzero nanargmax nanargmin digitize lexsort isin in1d"))     # positions
constant(*existing(np, "diag_indices_from tril_indices_from triu_indices_from common_type einsum_path"), metadata=True)
constant(*existing(np, "min_scalar_type around fix"))
constant(np.linalg.matrix_rank)
constant(*existing(np, "save savez savez_compressed savetxt"))                                     # the values are written

refused("it is defined on strings", *existing(np._core.umath, TEXT))
refused("it is defined on dates: pass plain dates",
        *existing(np, "busday_count busday_offset is_busday datetime_as_string"))
refused("it is defined on integers and bits: pass plain integers (dualad.primal(x).astype(int))",
        *existing(np, "packbits unpackbits ravel_multi_index unravel_index"))
# fmt: on
