"""NVML behind a child process that can be abandoned.

A call into a driver with dead firmware may never return, and a thread in it cannot be ended. A
process can be killed, or at least abandoned, so the agent never calls the driver itself.
"""

import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from navarch.core.instance import Gpu, GpuMetrics
from navarch.gpus.messages import LENGTH, Query, ReadFailure, Reply, decode, frame
from navarch.ports.clock import Clock
from navarch.ports.gpu import GpuError, GpuEvent, GpuHealth, GpuHungError, GpuLostError

T = TypeVar("T")

ANSWER_S = 5.0
"""A healthy driver responds within a millisecond, a busy one within a tenth of a second."""
START_S = 20.0
"""The first reply of a process may include waking GPUs without persistence mode."""
FRESH_S = 0.5
"""All GPUs are read at once; the readings of the others are used for this long."""
REST_S = (5.0, 60.0)
"""The first and the longest pause before a hung driver is tried again."""


class NvmlChild:
    """A GpuReader that always returns: with a reading, or with GpuHungError.

    `command` starts the child process; see `navarch.gpus.nvml_process`.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        command: Sequence[str] = (sys.executable, "-m", "navarch.gpus.nvml_process"),
        environ: Mapping[str, str] | None = None,
        answer_s: float = ANSWER_S,
        start_s: float = START_S,
        rest_s: tuple[float, float] = REST_S,
    ) -> None:
        self._clock = clock
        self._command = tuple(command)
        self._environ = dict(os.environ if environ is None else environ)
        self._answer_s = answer_s
        self._start_s = start_s
        self._rest_s = rest_s
        self._pause_s = rest_s[0]
        self._child: subprocess.Popen[bytes] | None = None
        self._new = True
        self._stuck: subprocess.Popen[bytes] | None = None
        self._again_at = float("-inf")
        self._fresh: dict[Query, tuple[float, Reply, set[str]]] = {}
        self._events: list[GpuEvent] = []
        self._happened = 0

    @property
    def pid(self) -> int | None:
        """The child process, if it is running."""
        return None if self._child is None else self._child.pid

    def list_gpus(self) -> Sequence[Gpu]:
        """Return every GPU the driver lists."""
        return self._query(Query.GPUS).gpus

    def metrics(self, gpu: Gpu) -> GpuMetrics:
        """Return the utilization, power and temperature of a GPU."""
        return _of(gpu, (reply := self._unused_reply(gpu, Query.METRICS)).metrics, reply)

    def health(self, gpu: Gpu) -> GpuHealth:
        """Return the health readings of a GPU."""
        return _of(gpu, (reply := self._unused_reply(gpu, Query.HEALTH)).health, reply)

    def events(self) -> Sequence[GpuEvent]:
        """Return the XIDs since the last settled one. XIDs between two child processes are lost."""
        for event in self._query(Query.EVENTS).events:
            self._happened += 1
            self._events.append(replace(event, number=self._happened))
        return list(self._events)

    def settle(self, number: int) -> None:
        """Forget events up to `number`."""
        self._events = [event for event in self._events if event.number > number]

    def close(self) -> None:
        """Kill the child process; one that is stuck in the driver is abandoned."""
        if self._child is not None:
            self._discard(self._child)
            self._child = None

    def _unused_reply(self, gpu: Gpu, query: Query) -> Reply:
        """Return a reply with a reading of `gpu` that has not been used yet."""
        now = self._clock.monotonic()
        at, reply, used = self._fresh.get(query, (float("-inf"), Reply(), set()))
        if now - at > FRESH_S or gpu.uuid in used:
            reply, used = self._query(query), set()
            self._fresh[query] = (self._clock.monotonic(), reply, used)
        used.add(gpu.uuid)
        return reply

    def _query(self, query: Query) -> Reply:
        child = self._running()
        within_s = self._start_s if self._new else self._answer_s
        try:
            reply = decode(_exchange(child, query, self._clock, within_s))
        except TimeoutError as error:
            self._restart_later(child)
            raise GpuHungError(f"the driver did not respond within {within_s:g} s") from error
        except (OSError, EOFError, ValueError) as error:
            self._restart_later(child)
            code = child.poll()
            how = f" of signal {-code}" if code is not None and code < 0 else ""
            raise GpuError(f"the process that calls the driver died{how}") from error
        self._new = False
        self._pause_s = self._rest_s[0]
        if reply.failure is not None:
            raise _error(reply.failure)
        return reply

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._child is not None:
            return self._child
        if self._stuck is not None and self._stuck.poll() is None:
            raise GpuHungError(
                f"the driver does not respond, and keeps process {self._stuck.pid} from ending"
            )
        self._stuck = None
        if self._clock.monotonic() < self._again_at:
            raise GpuHungError("the driver did not respond, and is not retried yet")
        try:
            self._child = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=self._environ,
                bufsize=0,
            )
        except OSError as error:
            raise GpuError(f"cannot start the process that calls the driver: {error}") from error
        self._new = True
        return self._child

    def _restart_later(self, child: "subprocess.Popen[bytes]") -> None:
        self._child = None
        self._fresh.clear()
        self._again_at = self._clock.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, self._rest_s[1])
        self._discard(child)

    def _discard(self, child: "subprocess.Popen[bytes]") -> None:
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()
        child.kill()
        try:
            child.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            self._stuck = child  # Stuck in the driver, where signals are not delivered.


def _exchange(
    child: "subprocess.Popen[bytes]", query: Query, clock: Clock, within_s: float
) -> bytes:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(frame(query.encode()))
    deadline = clock.monotonic() + within_s
    fd = child.stdout.fileno()
    head = _read(fd, LENGTH.size, clock, deadline)
    return _read(fd, LENGTH.unpack(head)[0], clock, deadline)


def _read(fd: int, size: int, clock: Clock, deadline: float) -> bytes:
    parts: list[bytes] = []
    while size > 0:
        left = max(deadline - clock.monotonic(), 0.0)
        if not select.select([fd], [], [], left)[0]:
            raise TimeoutError
        part = os.read(fd, size)
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _of(gpu: Gpu, found: Mapping[str, T], reply: Reply) -> T:
    if gpu.uuid in found:
        return found[gpu.uuid]
    raise _error(reply.failures.get(gpu.uuid, ReadFailure(text="GPU is lost", lost=True)))


def _error(failure: ReadFailure) -> GpuError:
    return GpuLostError(failure.text) if failure.lost else GpuError(failure.text)
