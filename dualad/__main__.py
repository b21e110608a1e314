"""``python -m dualad coverage`` prints which functions have derivatives."""

from __future__ import annotations

import sys

from .coverage import main

if __name__ == "__main__":
    if sys.argv[1:] != ["coverage"]:
        sys.exit("usage: python -m dualad coverage")
    main()
