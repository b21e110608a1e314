"""What both command lines print: a reader that has enough (``| head``) is no error."""

import os
import sys

__all__ = ["written"]


def written(text: str) -> int:
    """Print a text and return the status of the program: 0, also where nobody reads on."""
    try:
        print(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is flushed when the program ends
    return 0
