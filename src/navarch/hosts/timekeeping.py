"""How wrong the clock may be, from the kernel's own book-keeping."""

import ctypes

_UNSYNCHRONISED = 0x0040
_ERROR = 5


class _Timex(ctypes.Structure):
    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def clock_error_s() -> float | None:
    """Return the estimated error in seconds; infinity where nobody keeps the clock right."""
    timex = _Timex(modes=0)
    try:
        state = ctypes.CDLL(None).adjtimex(ctypes.byref(timex))
    except (AttributeError, OSError):
        return None
    if state < 0:
        return None
    if timex.status & _UNSYNCHRONISED or state == _ERROR:
        return float("inf")
    return float(timex.esterror) / 1e6
