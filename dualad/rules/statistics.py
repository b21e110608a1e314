"""Statistics: moments and order statistics with and without NaN, weights, counts, covariances."""

import math

from numpy.lib.array_utils import normalize_axis_tuple

from .constants import evaluate
from .cotangents import is_symbolic, notes_tests
from .indexing import cast, scatter, stated
from .kinds import Abstract, composite, constant, primitive
from .names import np
from .reductions import defined, flat_sqrt, fold, keeps_dims
from .shapes import as_array, by_numpy

NO = np._NoValue


def as_inexact(x):
    """Return `x` as an array of floats or complex numbers, plain or traced."""
    x = as_array(x)
    return x if x.dtype.kind in "fc" else x.astype(float)


# --- without NaN ------------------------------------------------------------------------------------------------------------


def masked(x, where):
    """Return the mask of the elements that count, and `x` with zeros for the others."""
    mask = np.logical_not(np.isnan(x))
    mask = mask if where is NO or where is True else np.logical_and(mask, where)
    return mask, np.where(mask, x, 0.0)


def without_nan(a, neutral):
    """Return an array with `neutral` in the place of NaN; integers and booleans stay what they are."""
    a = as_array(a)
    return np.where(np.isnan(a), neutral, a) if a.dtype.kind in "fc" else a


def refuse_integers(a, dtype):
    """Raise, as NumPy does, where a mean of floats is asked for in integers."""
    if dtype is not None and np.dtype(dtype).kind not in "fc" and as_array(a).dtype.kind in "fc":
        raise TypeError("If a is inexact, then dtype must be inexact")


def nanmean(a, axis=None, dtype=None, out=None, keepdims=NO, *, where=NO):
    refuse_integers(a, dtype)
    mask, a = masked(a, where)
    count = np.sum(mask, axis=axis, keepdims=keeps_dims(keepdims))
    total = np.sum(a, axis=axis, dtype=dtype, keepdims=keeps_dims(keepdims))
    return total / as_float_of(count, total)


def as_float_of(count, like):
    """Return counts as floats of the precision of `like`."""
    return cast(count, np.empty(0, like.dtype).real.dtype)


def nanvar(a, axis=None, dtype=None, out=None, ddof=0, keepdims=NO, *, where=NO, mean=NO, correction=NO):
    refuse_integers(a, dtype)
    mask, a = masked(a, where)
    ddof = ddof if correction is NO else correction
    center = nanmean(np.where(mask, a, np.nan), axis, dtype, keepdims=True) if mean is NO else mean
    if dtype is not None:  # NumPy writes the deviation into a copy of a
        center = center if np.iscomplexobj(a) else np.real(center)
    deviation = np.where(mask, a - center, 0.0)
    deviation = deviation if dtype is None or deviation.dtype == a.dtype else cast(deviation, a.dtype)
    square = np.square(np.real(deviation)) + np.square(np.imag(deviation)) if np.iscomplexobj(a) else deviation * deviation
    free = np.sum(mask, axis=axis, keepdims=keeps_dims(keepdims)) - ddof
    few = np.less_equal(free, 0)
    total = np.sum(square, axis=axis, dtype=dtype, keepdims=keeps_dims(keepdims))
    return np.where(few, np.nan, total / as_float_of(np.where(few, 1, free), total))[()]


def nanstd(a, axis=None, dtype=None, out=None, ddof=0, keepdims=NO, **options):
    return flat_sqrt(nanvar(a, axis, dtype, None, ddof, keepdims, **options))


def nan_extremum(extremum, worst):
    """Make the body of ``nanmax`` or ``nanmin``: NaN where all elements are."""

    def body(a, axis=None, out=None, keepdims=NO, initial=NO, where=NO):
        ans = extremum(without_nan(a, worst), axis=axis, keepdims=keeps_dims(keepdims), initial=initial, where=where)
        if initial is not NO or ans.dtype.kind not in "fc":
            return ans
        alone = np.all(np.isnan(a), axis=axis, keepdims=keeps_dims(keepdims))
        return np.where(alone, np.nan, ans)[()]

    return body


# --- order statistics -------------------------------------------------------------------------------------------------------

#: positions between order statistics (Hyndman & Fan 1996, table 1): n * q + alpha + q * (1 - alpha - beta) - 1
CONTINUOUS = {
    "linear": (1.0, 1.0),
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1.0 / 3.0, 1.0 / 3.0),
    "normal_unbiased": (3.0 / 8.0, 3.0 / 8.0),
}


#: the results are elements
CHOOSING = {"inverted_cdf", "closest_observation", "lower", "higher", "nearest"}


def positions(n, q, method):
    """Return where the quantiles stand among n sorted elements, counted from 0, between two where a fraction is left."""
    if method in CONTINUOUS:
        alpha, beta = CONTINUOUS[method]
        return np.clip(n * q + (alpha + q * (1.0 - alpha - beta)) - 1.0, 0.0, np.maximum(n - 1.0, 0.0))
    return evaluate(discrete_positions, n, q, method)


def discrete_positions(n, q, method):
    """Return where NumPy finds the quantiles of 0, 1, 2, ..., for each n and q."""
    n, q = np.broadcast_arrays(n, q)
    found = [np.quantile(np.arange(max(m, 1.0)), p, method=method) for m, p in zip(n.ravel(), q.ravel(), strict=True)]
    return np.reshape(found, n.shape)


def quantiles(a, q, axis, method, keepdims, skip_nan=False):
    """Return quantiles: between two sorted elements, in the shape that NumPy gives."""
    if skip_nan and not np.size(a):  # for which NumPy gives one mean
        return np.full(reduced_shape(a, axis, keepdims), np.nan)
    rows = np.sort(fold(a, axis), axis=-1)
    if not np.shape(rows)[-1]:
        return np.full((*np.shape(q), *reduced_shape(a, axis, keepdims)), np.nan)
    n = np.sum(np.logical_not(np.isnan(rows)), axis=-1, keepdims=True) if skip_nan else np.shape(rows)[-1]
    place = positions(n * 1.0, np.reshape(q, -1) * 1.0, method)
    place = np.broadcast_to(place, (*np.shape(rows)[:-1], np.shape(place)[-1]))
    weak = method in CHOOSING or (np.ndim(q) == 0 and not issubclass(type(q), np.ndarray | np.generic))  # a Python number
    dtype = rows.dtype if weak else np.result_type(rows.dtype, q.dtype)
    low, high, share = neighbours(rows, place, n, dtype)
    ans = low + np.where(np.equal(share, 0), 0.0, share * (high - low))
    if method in CONTINUOUS and is_symbolic(ans):
        if method == "linear":
            low, high, share = neighbours(rows, np.broadcast_to((n - 1.0) * np.reshape(q, -1), np.shape(place)), n, dtype)
        rise = high - low
        ans = stated(np.where(np.less(share, 0.5), low + rise * share, high - rise * (1.0 - share)), ans)
    if not skip_nan:
        ans = np.where(np.isnan(rows[..., -1:]), np.nan, ans)
    return np.reshape(np.moveaxis(ans, -1, 0), (*np.shape(q), *reduced_shape(a, axis, keepdims)))[()]


def neighbours(rows, place, n, dtype):
    """Return the elements below and above places among the first n of sorted rows, and how far the place is from the one below."""
    before = whole(place, np.shape(rows)[-1])
    low = np.take_along_axis(rows, before, -1)
    high = np.take_along_axis(rows, np.minimum(before + 1, n - 1), -1)
    return low, high, cast(place - before, dtype)


def weighted_quantiles(a, q, axis, method, keepdims, skip_nan, weights):
    """Return the elements that are the quantiles of a weighted array."""
    rows = fold(a, axis)
    if type(axis) is tuple and len(axis) > 1 and np.lib.NumpyVersion(np.__version__) < "2.1.0":
        raise TypeError("numpy.quantile: NumPy 2.0 gives wrong values for weights over several axes: use NumPy 2.1 or newer")
    places = evaluate(weighted_places, a, q, axis, method, skip_nan, weights)
    ans = np.take_along_axis(np.sort(rows, axis=-1), places, -1)
    return np.reshape(np.moveaxis(ans, -1, 0), (*np.shape(q), *reduced_shape(a, axis, keepdims)))[()]


def weighted_places(a, q, axis, method, skip_nan, weights):
    """Return where NumPy finds weighted quantiles among the sorted elements: those of the ranks."""
    weights = np.asarray(weights)
    weights = fold(weights if weights.shape == a.shape else spread(weights, a, axis), axis)
    rows = fold(a, axis)
    ranks = np.argsort(np.argsort(rows, axis=-1, kind="stable"), axis=-1, kind="stable").astype(float)
    if skip_nan:
        ranks = np.where(np.isnan(rows), np.nan, ranks)
    find, places = np.nanquantile if skip_nan else np.quantile, np.empty((*rows.shape[:-1], np.size(q)))
    for k in np.ndindex(rows.shape[:-1]):
        places[k] = find(ranks[k], np.reshape(q, -1), method=method, weights=weights[k])
    return np.nan_to_num(places).astype(int)


def whole(place, n):
    return np.clip(np.floor(place), 0, n - 1).astype(int)


def reduced_shape(a, axis, keepdims):
    """Return the shape of a reduction of `a`."""
    shape, ndim = np.shape(a), np.ndim(a)
    axes = range(ndim) if axis is None else normalize_axis_tuple(axis, ndim)
    return tuple(1 if i in axes else n for i, n in enumerate(shape) if keepdims or i not in axes)


def quantile(skip_nan, scale):
    """Make the body of ``quantile`` and its kin; a percentage is divided by `scale`."""

    def body(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *, weights=None, interpolation=None):
        q = as_array(q) if isinstance(q, list | tuple) else q
        q = q if scale == 1 else q / scale
        if notes_tests(q) and not np.all((q >= 0.0) & (q <= 1.0)):  # else NumPy has checked it
            raise ValueError("Quantiles must be in the range [0, 1]")
        if weights is not None:  # for which NumPy has one method, that chooses elements
            return weighted_quantiles(as_inexact(a), q, axis, method, keeps_dims(keepdims), skip_nan, weights)
        return quantiles(as_inexact(a), q, axis, interpolation or method, keeps_dims(keepdims), skip_nan)

    return body


def median(skip_nan):
    def body(a, axis=None, out=None, overwrite_input=False, keepdims=False):
        a = as_inexact(a)
        ans = quantiles(a, 0.5, axis, "linear", keeps_dims(keepdims), skip_nan)
        if not is_symbolic(ans) or not np.size(a):
            return ans
        found = np.reshape(middle(fold(a, axis), skip_nan), np.shape(ans))
        return stated(found if np.ndim(ans) else found[()], ans)

    return body


def middle(rows, skip_nan):
    """Return the mean of the two numbers in the middle, or the one that is there."""
    rows = np.sort(rows, axis=-1)
    if skip_nan:
        n = np.sum(np.logical_not(np.isnan(rows)), axis=-1, keepdims=True)
        low, high = (np.take_along_axis(rows, place, -1)[..., 0] for place in (np.maximum(n - 1, 0) // 2, n // 2))
        return (low + high) / 2.0
    n = np.shape(rows)[-1]
    ans = (rows[..., (n - 1) // 2] + rows[..., n // 2]) / 2.0
    return np.where(np.isnan(rows[..., -1]), np.nan, ans)


# --- weights and counts -----------------------------------------------------------------------------------------------------


def average(a, axis=None, weights=None, returned=False, *, keepdims=NO):
    keepdims, a_dtype = keeps_dims(keepdims), as_array(a).dtype
    a = as_inexact(a)
    if weights is None:
        ans = np.mean(a, axis=axis, keepdims=keepdims)
        if returned:
            total = np.asarray(np.size(a) / max(np.size(ans), 1), dtype=ans.dtype)[()]
    else:
        weights = as_array(weights)
        kind = np.result_type(weights.dtype, a_dtype, *([] if a_dtype.kind in "fc" else [float]))
        weights = spread(cast(weights, kind), a, axis)
        total = np.sum(weights, axis=axis, keepdims=keepdims)
        if is_symbolic(total):
            total = defined(total, np.all(np.not_equal(total, 0)), "Weights sum to zero, can't be normalized")
        ans = np.sum(a * weights, axis=axis, keepdims=keepdims) / total
    return (ans, np.broadcast_to(total, np.shape(ans)) + 0.0) if returned else ans


def spread(weights, a, axis):
    """Return weights, given along some axes of `a` or for all its elements, in a shape that broadcasts to that of `a`."""
    if np.shape(weights) == np.shape(a):
        return weights
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    axes = normalize_axis_tuple(axis, np.ndim(a))
    weights = np.transpose(weights, tuple(np.argsort(axes)))
    full = np.reshape(weights, [np.shape(a)[i] if i in axes else 1 for i in range(np.ndim(a))])
    return np.broadcast_to(full, np.shape(a))


def bincount(x, /, weights=None, minlength=0):
    if not hasattr(x, "__dualad_apply__"):
        x, size = np.asarray(x), max(int(np.max(x, initial=-1)) + 1, minlength)
    elif x.dtype.kind not in "iu":
        raise TypeError(
            "numpy.bincount: x counts integers, which have no derivative: pass plain ones "
            "(dualad.primal(x).astype(int)); its weights may be traced"
        )
    elif not minlength:
        raise TypeError("numpy.bincount: x is traced, so the number of bins cannot be read from it: give minlength=")
    else:
        x, size = bins_of(x, minlength), minlength
    if weights is None:
        return scatter(np.ones(np.shape(x), int), x, Abstract.of((size,), int))
    return scatter(as_inexact(weights), x, Abstract.of((size,), float))


@primitive
def bins_of(x, size):
    """Return the bins that integers are counted in, which a traced call has `size` of."""
    if x.ndim != 1:
        raise ValueError(f"numpy.bincount: x has {x.ndim} axes: give one")
    low, high = np.min(x, initial=0), np.max(x, initial=0)
    if low < 0:
        raise ValueError(f"numpy.bincount: x contains {low}: its elements must not be negative")
    if high >= size:
        raise IndexError(f"numpy.bincount: x contains {high}, but a traced x has only minlength={size} bins: give a larger one")
    return x


def bin_edges(a, bins=10, range=None, weights=None):
    """Return the edges of bins: of a number of bins, between the least and the largest element, they have derivatives."""
    if np.ndim(bins) == 1:
        return as_array(bins)
    count = bins if issubclass(type(bins), int | np.integer) else np.size(evaluate(np.histogram_bin_edges, a, bins, range)) - 1
    low, high = (np.min(a), np.max(a)) if range is None else range
    if evaluate(np.equal, low, high):
        low, high = low - 0.5, high + 0.5
    ans = np.linspace(low, high, count + 1)
    kind = np.result_type(ans if range is None else 0.0, as_array(a))
    return ans if ans.dtype == kind else cast(ans, kind)


def histogram(a, bins=10, range=None, density=None, weights=None):
    edges = bin_edges(a, bins, range)
    counts, edges = histogramdd_counts([np.ravel(a)], [edges], weights, density, int if weights is None else None)
    return counts, edges[0]


def bins_of_both(bins):
    """Return the bins of each of two axes."""
    return list(bins) if np.iterable(bins) and len(bins) == 2 else [bins, bins]


def histogramdd(sample, bins=10, range=None, density=None, weights=None):
    if not hasattr(sample, "ndim") and all(np.ndim(column) == 0 for column in sample):
        sample = as_array(sample)
    columns = list(sample) if not hasattr(sample, "ndim") else list(np.transpose(sample)) if np.ndim(sample) == 2 else [np.ravel(sample)]
    bins = [bins] * len(columns) if issubclass(type(bins), int | np.integer) else list(bins)
    ranges = [None] * len(columns) if range is None else range
    edges = [bin_edges(x, b, r) for x, b, r in zip(columns, bins, ranges, strict=True)]
    return histogramdd_counts(columns, edges, weights, density, float)


def histogramdd_counts(columns, edges, weights, density, dtype):
    """Return the sums of the weights in each bin, and the edges; counts have no derivative, weights are summed linearly."""
    shape = [np.shape(e)[0] - 1 for e in edges]
    size = math.prod(shape)
    places = bin_places(columns, edges, size)
    if weights is None:
        counts = np.bincount(places, minlength=size + 1)[:size].reshape(shape).astype(dtype)
    else:
        weights = np.ravel(as_array(weights))
        counts = np.reshape(scatter(weights, places, Abstract.of((size + 1,), dtype or weights.dtype))[:size], shape)
    if density:
        total = np.sum(counts)
        for i, e in enumerate(edges):
            counts = counts / np.reshape(np.diff(e), [-1 if k == i else 1 for k in range(len(edges))])
        counts = counts / total
    return counts, edges


def bin_places(columns, edges, size):
    """Return the bin of each sample, of all bins one after the other, and `size` for those in none; the last bin holds its right edge."""
    places, inside = 0, True
    for x, e in zip(columns, edges, strict=True):
        count, x = np.shape(e)[0] - 1, np.ravel(x)
        place = np.searchsorted(e, x, side="right") - 1 - (x == e[-1])
        places = places * count + place
        inside = inside & (place >= 0) & (place < count)
    return np.where(inside, places, size)


# --- covariances ------------------------------------------------------------------------------------------------------------


def cov(m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None, *, dtype=None):
    x = variables(m, rowvar, np.ndim(m) != 1, dtype)
    if y is not None:
        x = np.concatenate([x, variables(y, rowvar, np.ndim(y) > 1 and np.shape(y)[0] != 1, dtype)], axis=0)
    if not np.shape(x)[0]:  # whatever the weights
        return np.matmul(x, np.transpose(x))
    ddof = (0 if bias else 1) if ddof is None else ddof
    fweights, aweights = (w if w is None else as_inexact(w) for w in (fweights, aweights))
    w = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    total = np.shape(x)[1] if w is None else np.sum(w)
    mean = np.mean(x, axis=1, keepdims=True) if w is None else np.sum(x * w, axis=1, keepdims=True) / total
    free = total - ddof if w is None or aweights is None else total if ddof == 0 else total - ddof * np.sum(w * aweights) / total
    x = x - mean
    conjugate = np.conjugate(x) if np.iscomplexobj(x) else x
    ans = np.matmul(x, np.transpose(conjugate if w is None else conjugate * w)) / (np.maximum(free, 0.0) * 1.0)
    return np.squeeze(ans)


def variables(m, rowvar, flip, dtype):
    """Return the variables as rows, in double precision as NumPy does."""
    m = as_array(m)
    kind = np.result_type(m, np.float64) if dtype is None else np.dtype(dtype)
    m = m if m.dtype == kind else cast(m, kind)
    m = np.reshape(m, (1, -1)) if np.ndim(m) < 2 else m
    return np.transpose(m) if flip and not rowvar else m


def histogram_values(a, bins=10, range=None, *rest, **options):
    """Return the values that determine the edges of bins."""
    return (bins, range) if np.ndim(bins) == 1 or (range is not None and type(bins) is not str) else (a, bins, range)


def histogram2d_values(x, y, bins=10, range=None, *rest, **options):
    return histogramdd_values((x, y), bins_of_both(bins), range)


def histogramdd_values(sample, bins=10, range=None, *rest, **options):
    given = np.iterable(bins) and all(np.ndim(edges) == 1 for edges in bins)
    return (bins, range) if given or range is not None else (sample, bins, range)


# --- the table --------------------------------------------------------------------------------------------------------------

# fmt: off
composite(np.nanmean,     nanmean, with_numpy_value=True)
composite(np.nanvar,      nanvar, with_numpy_value=True)
composite(np.nanstd,      nanstd, with_numpy_value=True)
composite(np.nanmax,      nan_extremum(np.max, -np.inf), with_numpy_value=True)
composite(np.nanmin,      nan_extremum(np.min, np.inf), with_numpy_value=True)
composite(np.median,        median(False), with_numpy_value=True, selected="median")
composite(np.nanmedian,     median(True), with_numpy_value=True)
composite(np.quantile,      quantile(False, 1), with_numpy_value=True, selected="quantile")
composite(np.percentile,    quantile(False, 100), with_numpy_value=True, selected="quantile")
composite(np.nanquantile,   quantile(True, 1), with_numpy_value=True)
composite(np.nanpercentile, quantile(True, 100), with_numpy_value=True)
composite(np.average,       average, with_numpy_value=True)
constant(bins_of, lower="bins_of")
composite(np.bincount,      bincount, with_numpy_value=lambda x, *rest, **options: not hasattr(x, "__dualad_apply__"))
composite(np.histogram,     histogram, value_dependent=histogram_values, with_numpy_value=True)
composite(np.histogram2d,   by_numpy(np.histogram2d), value_dependent=histogram2d_values, with_numpy_value=True)
composite(np.histogramdd,   histogramdd, value_dependent=histogramdd_values, with_numpy_value=True)
composite(np.histogram_bin_edges, bin_edges, value_dependent=True, with_numpy_value=True)
composite(np.cov,           cov, with_numpy_value=True)
composite(np.corrcoef,      by_numpy(np.corrcoef))
composite(np.amax,          lambda a, *args, **kwargs: np.max(a, *args, **kwargs))
composite(np.amin,          lambda a, *args, **kwargs: np.min(a, *args, **kwargs))
# fmt: on
for fn in (np.cumulative_sum, np.cumulative_prod, np.ptp):
    composite(fn, by_numpy(fn))
for fn in (np.nansum, np.nanprod, np.nancumsum, np.nancumprod):  # without the assignment in NumPy's, their gradients take a quarter less
    composite(fn, by_numpy(fn, _replace_nan=lambda a, neutral: (without_nan(np.copy(a, "K"), neutral), None)))
