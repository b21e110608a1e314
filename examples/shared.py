"""What the examples share: the words of the command line, packages that not everybody has, and pictures."""

import argparse
import importlib
import sys
from contextlib import contextmanager
from pathlib import Path


def needed(module, package):
    """Return a module that an example is about, or end with one line that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        sys.exit(f"This example needs {package}: pip install {package}")


def options(description, **numbers):
    """Return `--plot FILE`, the name of the example by default, and the numbers ``name=(default, what it is)``."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--plot", metavar="FILE", default=Path(sys.argv[0]).stem + ".png", help="the picture (default %(default)s)")
    for name, (default, meaning) in numbers.items():
        parser.add_argument(f"--{name}", type=type(default), default=default, help=f"{meaning} (default {default})")
    return parser.parse_args()


@contextmanager
def picture(path, rows=1, columns=1, size=(6.4, 3.8), **subplots):
    """Make the axes of a picture, and write it when they are drawn."""
    figure = needed("matplotlib.figure", "matplotlib").Figure(figsize=size, layout="constrained")
    yield figure.subplots(rows, columns, **subplots)
    figure.savefig(path, dpi=100)
    print(f"wrote {path}")
