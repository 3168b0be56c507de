"""History of counters, to find how much each rose lately."""

from collections import deque
from datetime import datetime, timedelta

SAMPLES_MAX = 128
"""The samples kept per counter. Only changes are kept: a constant counter costs one."""


class History:
    """The latest values of counters.

    A check that reads a counter once cannot distinguish ten errors of last year from ten errors
    of this minute. The history adds the values before and returns how many are new.
    """

    def __init__(self) -> None:
        self._samples: dict[str, deque[tuple[datetime, int]]] = {}

    def rise(self, counter: str, value: int, *, at: datetime, within: timedelta) -> int:
        """Record `value` of `counter` and return by how much it has risen `within` that time.

        The first result of a counter is zero, because no earlier value is known. A counter that
        falls has restarted, with the driver or the machine.
        """
        samples = self._samples.setdefault(counter, deque(maxlen=SAMPLES_MAX))
        if not samples or value < samples[-1][1]:
            samples.clear()
            samples.append((at, value))
        elif value != samples[-1][1]:
            samples.append((at, value))
        # The last sample before the window holds the value at the beginning of the window.
        while len(samples) > 1 and samples[1][0] <= at - within:
            samples.popleft()
        return value - samples[0][1]
