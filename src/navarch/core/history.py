"""Counters over time: how much has one risen lately?"""

from collections import deque
from datetime import datetime, timedelta

SAMPLES_MAX = 128
"""Per counter. Only changes are kept, so that a quiet counter costs one."""


class History:
    """Remembers what counters said, for as long as somebody may ask.

    A check that looks at one moment cannot tell a card that had ten errors a year ago from one
    that had them just now. It tells the history what it sees, and asks how much is new.
    """

    def __init__(self) -> None:
        self._samples: dict[str, deque[tuple[datetime, int]]] = {}

    def rise(self, counter: str, value: int, *, at: datetime, within: timedelta) -> int:
        """Note what a counter says, and return by how much it has risen within the last while.

        Nothing is known before the first look, so that the first answer is zero. A counter
        that falls has started again, with the driver or the machine.
        """
        samples = self._samples.setdefault(counter, deque(maxlen=SAMPLES_MAX))
        if not samples or value < samples[-1][1]:
            samples.clear()
            samples.append((at, value))
        elif value != samples[-1][1]:
            samples.append((at, value))
        # The last sample before the window says what the counter was when the window began.
        while len(samples) > 1 and samples[1][0] <= at - within:
            samples.popleft()
        return value - samples[0][1]
