"""Virtual time at a chosen speed, for watching a simulation."""

import select
import sys
from collections.abc import Callable

from navarch.clock.system import SystemClock
from navarch.sim.kernel.loop import SimLoop

TICK_S = 0.2
"""The longest wait before the loop reads the keyboard and updates the picture."""


class PacedLoop(SimLoop):
    """A virtual clock slowed to a chosen speed, and a keyboard that is read meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.speed = 1.0
        self.paused = False
        self.hurry_until = 0.0
        """Until this virtual time the clock runs without waiting."""
        self.on_line: Callable[[str], None] = lambda _: None
        self.on_tick: Callable[[], None] = lambda: None
        self._real = SystemClock()
        self._ended = False

    def _pass_time(self, until: float | None) -> None:
        """Wait in real time, and advance virtual time by that times the speed."""
        left_s = None if until is None else max(until - self.now_s, 0.0)
        if left_s == 0 or (self.now_s < self.hurry_until and left_s is not None):
            super()._pass_time(until)
            return
        longest_s = TICK_S if left_s is None or self.paused else min(left_s / self.speed, TICK_S)
        before = self._real.monotonic()
        line = self._listen(longest_s)
        passed_s = (self._real.monotonic() - before) * self.speed
        if not self.paused and left_s is not None:
            self._move_to(self.now_s + min(passed_s, left_s))
        if line is not None:
            self.on_line(line)
        self.on_tick()

    def _listen(self, seconds: float) -> str | None:
        """Return a line that was typed within a while; an end of input is returned once."""
        source = [] if self._ended else [sys.stdin]
        readable, _, _ = select.select(source, [], [], max(seconds, 0.0))
        if not readable:
            return None
        line = sys.stdin.readline()
        self._ended = not line
        return line.strip() if line else "quit"
