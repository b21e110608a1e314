"""SciPy's functions with derivatives, under SciPy's names: ``from dualad.scipy import stats``, ``stats.norm.logpdf(x, mu, sigma)``.

Values are SciPy's own. Of plain arguments a call is SciPy's; of traced ones it follows a row of `dualad.rules.scipy`. The ufuncs of
``scipy.special`` have rows as they are; here they take lists of traced numbers, too.
"""

from .namespaces import modules as _modules

__all__ = ["fft", "fftpack", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "spatial", "special", "stats"]

__getattr__, __dir__ = _modules(__name__, __all__)
