"""The watchdogs: they end a leader that stands still, so that another server can take over."""

import contextlib
import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import msgspec
import structlog

from navarch.ports.clock import Clock

log = structlog.get_logger(__name__)

PULSE_S = 1.0
"""How often the event loop reports that it runs, and how often the thread looks."""
GAP_S = 5.0
"""A thread that wakes up later than this did not run: the process was paused."""
SETTLED_S = 300.0
"""How long the event loop must run without standing still before the process may be ended.

What makes the loop stand still may be in the stored state. If the process ended at once, the next
one would too, and no server would ever get further than its start.
"""
BUSY_THREADS = min(os.cpu_count() or 1, 4)
"""How many threads of this process may use the CPU at once; each of them runs the timer down."""
WRITING_S = 2.0
"""How long the last message may take: standard error may be what stands still."""


class LoopWatchdog:
    """Ends this process if its event loop stands still.

    Such a leader answers nothing and launches nothing, but holds the state, so no other server can
    replace it. A thread notices a loop that waits or computes, and a timer of CPU time one that
    computes in a single call and never lets the thread run. Time in which the whole process was
    paused does not count, nor does time in a debugger.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        frozen_after: timedelta,
        settled_s: float = SETTLED_S,
        end: Callable[[float], None] | None = None,
    ) -> None:
        """Without `frozen_after`, nothing is watched. `end` receives the time in seconds."""
        self._clock = clock
        self._frozen_after_s = frozen_after.total_seconds()
        self._settled_s = settled_s
        self._end = end or end_process
        self._loop_thread = threading.get_ident()
        self._pulse_s = self._looked_s = self._running_since_s = clock.monotonic()
        self._frozen = False
        """Whether it is known that the loop stands still."""
        self._stopping = threading.Event()

    async def run(self) -> None:
        """Watch until cancelled. Runs on the event loop that is watched."""
        if not self._frozen_after_s:
            return
        self._loop_thread = threading.get_ident()
        self._pulse_s = self._looked_s = self._running_since_s = self._clock.monotonic()
        threading.Thread(target=self._watch, name="navarch-watchdog", daemon=True).start()
        has_timer = hasattr(signal, "setitimer")
        if has_timer:
            # Where the loop stands still, before the signal ends the process.
            faulthandler.register(signal.SIGPROF, all_threads=True, chain=True)
        try:
            while True:
                self.pulse()
                if has_timer and self._is_settled:
                    signal.setitimer(signal.ITIMER_PROF, BUSY_THREADS * self._frozen_after_s)
                await self._clock.sleep(PULSE_S)
        finally:
            self._stopping.set()
            if has_timer:
                signal.setitimer(signal.ITIMER_PROF, 0)
                faulthandler.unregister(signal.SIGPROF)

    def pulse(self) -> None:
        """Record that the loop runs."""
        now_s = self._clock.monotonic()
        if now_s - self._pulse_s > self._frozen_after_s:
            self._running_since_s = now_s
        self._pulse_s, self._frozen = now_s, False

    def look(self) -> None:
        """End the process if the loop has stood still for too long."""
        now_s = self._clock.monotonic()
        if now_s - self._looked_s > GAP_S:
            self._pulse_s = now_s
        self._looked_s = now_s
        frozen_s = now_s - self._pulse_s
        if frozen_s <= self._frozen_after_s or self._frozen or self._is_debugged():
            return
        if self._is_settled:
            self._end(frozen_s)
            return
        self._frozen = True
        log.warning("server.loop_frozen", seconds=round(frozen_s), ended=False)

    @property
    def _is_settled(self) -> bool:
        return self._pulse_s - self._running_since_s >= self._settled_s

    def _watch(self) -> None:
        while not self._stopping.wait(PULSE_S):
            self.look()

    def _is_debugged(self) -> bool:
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - a public function
        while frame is not None:
            if frame.f_globals.get("__name__") in ("bdb", "pdb", "pydevd"):
                return True
            frame = frame.f_back
        return _status(Path("/proc/self")).get("TracerPid", "0") != "0"


def end_process(frozen_s: float) -> None:
    """End this process, with the place where it stands still on standard error."""
    timer = threading.Timer(WRITING_S, os._exit, (1,))
    timer.daemon = True
    timer.start()
    print(  # noqa: T201 - the log may be what stands still
        f"navarch serve: the event loop has stood still for {frozen_s:.0f} s "
        "(server.frozen_after). This process ends, so that a standby server or the service manager "
        "replaces it",
        file=sys.stderr,
        flush=True,
    )
    faulthandler.dump_traceback(all_threads=True)
    os._exit(1)


STOPPED_AFTER_S = 10.0
"""How long a standby server waits for a stopped leader to continue."""
LOOK_GAP_S = 2.0
"""A standby server that looks later than this was stopped itself, maybe together with the leader:
it counts again from the start."""


class _Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """A stopped process, told apart from one of the same number, and from itself after it ran."""

    process: int
    started: str
    switches: tuple[str, str]
    """How often it was given the CPU and lost it."""


class StoppedLeaderWatch:
    """Ends the leader of a state directory on this host if it is stopped and stays so.

    A stopped process, as after SIGSTOP, holds its lock for as long as it exists. It is ended by
    SIGKILL: nothing less reaches it, and whatever it was doing, it must not continue once another
    server leads. Only a process is ended that holds both the lock and the database of this
    directory open at that moment, that is stopped but not by a debugger, and that has not run
    since it was first seen to be stopped.
    """

    def __init__(
        self, clock: Clock, lock: Path, database: Path, *, proc: Path = Path("/proc")
    ) -> None:
        self._clock = clock
        self._lock = lock
        self._database = database
        self._proc = proc
        self._stopped: _Stopped | None = None
        self._since_s = self._looked_s = clock.monotonic()
        self._reported = False

    def look(self) -> None:
        """End the leader if it has been stopped for too long."""
        stopped, now_s = self._find(), self._clock.monotonic()
        is_gap = now_s - self._looked_s > LOOK_GAP_S
        self._looked_s = now_s
        if stopped != self._stopped or is_gap:
            self._stopped, self._since_s, self._reported = stopped, now_s, False
        if stopped is None or now_s - self._since_s < STOPPED_AFTER_S or self._reported:
            return
        self._reported = True
        self._end(stopped, now_s - self._since_s)

    def _end(self, stopped: _Stopped, stopped_s: float) -> None:
        try:
            descriptor = os.pidfd_open(stopped.process)
        except OSError:
            return
        try:
            # Looked up again behind the descriptor: the number may be another process by now. If
            # it becomes another one later, the descriptor refers to none and the signal fails.
            if stopped == self._find():
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                log.warning("server.leader_ended", pid=stopped.process, stopped_s=round(stopped_s))
        except OSError as error:
            log.warning(
                "server.leader_not_ended",
                pid=stopped.process,
                problem=error.strerror,
                remedy=f"continue it with kill -CONT {stopped.process}, or end it",
            )
        finally:
            os.close(descriptor)

    def _find(self) -> _Stopped | None:
        """Return the leader if it is stopped, and None if not or if that cannot be seen."""
        return next(
            filter(self._is_leader, filter(None, map(self._stopped_at, self._holders()))), None
        )

    def _holders(self) -> Iterator[int]:
        """Yield the processes on this host that may hold the lock, as the kernel lists them."""
        # One number here: this /proc numbers processes as this process does. That of a host, seen
        # in a container, does not.
        if _status(self._proc / "self").get("NSpid", "").split() != [str(os.getpid())]:
            return
        try:
            inode = self._lock.stat().st_ino
            listed = (self._proc / "locks").read_text()
        except OSError:
            return
        for line in listed.splitlines():
            # Such as `1: FLOCK  ADVISORY  WRITE 4242 08:01:131 0 EOF`.
            words = line.split()
            is_lock = len(words) == 8 and words[1] == "FLOCK" and words[5].endswith(f":{inode}")
            if is_lock and words[4].isdecimal() and int(words[4]) != os.getpid():
                yield int(words[4])

    def _stopped_at(self, process: int) -> _Stopped | None:
        folder = self._proc / str(process)
        status = _status(folder)
        # A stop by a debugger is `t`.
        if status.get("State", "")[:1] != "T" or status.get("TracerPid") != "0":
            return None
        switches = "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"
        return _Stopped(
            process=process,
            started=_started(folder),
            switches=(status.get(switches[0], ""), status.get(switches[1], "")),
        )

    def _is_leader(self, stopped: _Stopped) -> bool:
        """Return whether a process holds the lock, and has the database open.

        The list of locks may name a process that has ended, if a child has inherited the lock.
        """
        lock = database = False
        folder = self._proc / str(stopped.process)
        with contextlib.suppress(OSError):
            held, stored = self._lock.stat(), self._database.stat()
            for link in (folder / "fd").iterdir():
                with contextlib.suppress(OSError):
                    found = link.stat()
                    database |= os.path.samestat(found, stored)
                    if os.path.samestat(found, held):
                        info = folder / "fdinfo" / link.name
                        # The kernel lists the locks that are held by this very descriptor.
                        lock |= any(
                            line.startswith("lock:") and " FLOCK " in line
                            for line in info.read_text().splitlines()
                        )
        return lock and database


def _status(folder: Path) -> dict[str, str]:
    """Return what `/proc/PID/status` lists; empty if it cannot be read."""
    try:
        lines = (folder / "status").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in lines)
    return {name: value.strip() for name, _, value in pairs}


def _started(folder: Path) -> str:
    """Return when a process started, in ticks since the boot."""
    with contextlib.suppress(OSError, IndexError):
        # After the name in parentheses, which may contain anything.
        text = (folder / "stat").read_text(errors="replace")
        return text.rpartition(")")[2].split()[19]
    return ""
