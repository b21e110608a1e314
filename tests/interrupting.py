"""A KeyboardInterrupt at an instruction that is chosen by its number, instead of at random."""

import sys
from itertools import count


def interrupted(call, number, watches, breaks=lambda code, previous: True):
    """Return whether a call has an instruction of this number, before which there is an interrupt.

    Counted are those of code that `watches` answers for, and of these where `breaks` does: it is asked with the code and the place of the
    instruction before, None at the beginning.
    """
    passed = count()

    def tracer():
        last = None

        def local(frame, event, argument):
            nonlocal last
            if event == "opcode":
                previous, last = last, frame.f_lasti
                if breaks(frame.f_code, previous) and next(passed) == number:
                    sys.settrace(None)
                    raise KeyboardInterrupt
            return local

        return local

    def entered(frame, event, argument):
        if not watches(frame.f_code):
            return None
        frame.f_trace_opcodes = True
        return tracer()

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # without which 3.12 traces none
    sys.settrace(entered)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False
