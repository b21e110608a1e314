"""A fit of another process, without one."""

from checkpoint import Fit
from checkpoint.durable import fit_folder


def anew(fit):
    """The fit of a process that begins when this one has ended."""
    fit_folder.give_free()
    return Fit(fit.path, every=1e6)
