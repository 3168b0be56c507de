"""The watchdogs, with real processes: what is ended, and above all what is never ended."""

import asyncio
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest
import structlog
from structlog.testing import capture_logs

from navarch.app import watchdog
from navarch.app.watchdog import SETTLED_S, LoopWatchdog, StoppedLeaderWatch
from navarch.ports.clock import Clock
from navarch.stores.sqlite import DATABASE, LOCK

pytestmark = pytest.mark.skipif(
    not Path("/proc/locks").exists(), reason="the kernel's list of locks is Linux's"
)

LEAD = """
import sys, signal
from datetime import timedelta
from pathlib import Path
from navarch.clock import SystemEntropy
from navarch.sim.kernel.clock import InlineOffload
from navarch.stores.sqlite import SqliteStore
store = SqliteStore.open(Path(sys.argv[1]), InlineOffload(), SystemEntropy())
{then}
print("leads", flush=True)
while True: signal.pause()
"""
HOLD = """
import sys, signal, fcntl
lock = open(sys.argv[1] + "/lock", "a")
if sys.argv[2] == "locked": fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
database = open(sys.argv[1] + "/navarch.db") if sys.argv[3] == "opened" else None
print("holds", flush=True)
while True: signal.pause()
"""


class ManualClock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


def a_clock() -> Clock:
    return cast("Clock", ManualClock())


def advance(clock: Clock, seconds: float) -> None:
    cast("ManualClock", clock).now_s += seconds


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start processes that print a line when they are ready, and end them after the test."""
    started: list[subprocess.Popen[str]] = []

    def begin(*command: str, ready: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline().strip() == ready
        return process

    yield begin
    for process in started:
        with process:
            process.kill()
            process.send_signal(signal.SIGCONT)


def a_leader(start: Start, folder: Path, then: str = "") -> subprocess.Popen[str]:
    code = LEAD.replace("{then}", then)
    return start(sys.executable, "-c", code, str(folder), ready="leads")


def state_of(process: int) -> str:
    text = Path(f"/proc/{process}/stat").read_text()
    return text.rpartition(")")[2].split()[0]


def stop(process: int) -> None:
    os.kill(process, signal.SIGSTOP)
    until(lambda: state_of(process) in "Tt")


def until(holds: Callable[[], object], within_s: float = 30.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def a_watch(clock: Clock, folder: Path) -> StoppedLeaderWatch:
    return StoppedLeaderWatch(clock, folder / LOCK, folder / DATABASE)


def look_for(watch: StoppedLeaderWatch, clock: Clock, seconds: float) -> None:
    """Look as often as a standby server does for that long."""
    for _ in range(int(4 * seconds)):
        advance(clock, 0.25)
        watch.look()


def test_a_leader_that_stays_stopped_is_ended(start: Start, tmp_path: Path) -> None:
    leader, clock = a_leader(start, tmp_path), a_clock()
    watch = a_watch(clock, tmp_path)
    look_for(watch, clock, 60)
    assert leader.poll() is None, "one that runs is left alone"
    stop(leader.pid)
    look_for(watch, clock, 10)
    assert leader.poll() is None, "it may be continued at once"
    look_for(watch, clock, 0.5)
    assert leader.wait(30) == -signal.SIGKILL
    # Another one leads now, and the watch is none the worse for it.
    a_leader(start, tmp_path)
    look_for(watch, clock, 60)


def test_a_leader_that_was_continued_in_between_is_left_alone(start: Start, tmp_path: Path) -> None:
    leader, clock = a_leader(start, tmp_path), a_clock()
    watch = a_watch(clock, tmp_path)
    for _ in range(3):
        stop(leader.pid)
        look_for(watch, clock, 6)
        leader.send_signal(signal.SIGCONT)
        until(lambda: state_of(leader.pid) == "S")
    assert leader.poll() is None


def test_a_standby_that_was_stopped_with_the_leader_counts_again(
    start: Start, tmp_path: Path
) -> None:
    leader, clock = a_leader(start, tmp_path), a_clock()
    watch = a_watch(clock, tmp_path)
    stop(leader.pid)
    look_for(watch, clock, 1)
    advance(clock, 3600)  # As with Ctrl-Z on both, or a laptop that is closed.
    look_for(watch, clock, 9)
    assert leader.poll() is None


@pytest.mark.parametrize(
    ("locked", "opened"), [("locked", "closed"), ("free", "opened"), ("free", "closed")]
)
def test_a_stopped_process_that_is_no_leader_is_never_ended(
    locked: str, opened: str, start: Start, tmp_path: Path
) -> None:
    if locked == "free":
        a_leader(start, tmp_path)
    else:
        # Such as a backup that runs under `flock`.
        former = a_leader(start, tmp_path)
        former.kill()
        former.wait()
    command = [sys.executable, "-c", HOLD, str(tmp_path), locked, opened]
    other = start(*command, ready="holds")
    clock = a_clock()
    stop(other.pid)
    look_for(a_watch(clock, tmp_path), clock, 60)
    assert other.poll() is None


def test_the_leader_of_another_directory_is_never_ended(start: Start, tmp_path: Path) -> None:
    other, clock = a_leader(start, tmp_path / "other"), a_clock()
    a_leader(start, tmp_path / "own")
    stop(other.pid)
    look_for(a_watch(clock, tmp_path / "own"), clock, 60)
    assert other.poll() is None


@pytest.mark.skipif(shutil.which("gdb") is None, reason="no debugger is installed")
def test_a_leader_in_a_debugger_is_never_ended(start: Start, tmp_path: Path) -> None:
    leader, clock = a_leader(start, tmp_path), a_clock()
    command = ["gdb", "-q", "-nx", "-p", str(leader.pid), "-batch", "-ex", "shell echo; cat"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as debugger:
        until(lambda: state_of(leader.pid) == "t")
        look_for(a_watch(clock, tmp_path), clock, 60)
        assert leader.poll() is None
        debugger.communicate(b"", timeout=30)
    assert leader.poll() is None


def test_a_traced_leader_that_is_stopped_is_never_ended(start: Start, tmp_path: Path) -> None:
    leader, clock = a_leader(start, tmp_path), a_clock()
    libc = ctypes.CDLL(None, use_errno=True)
    seize, detach = 0x4206, 17
    if libc.ptrace(seize, leader.pid, None, None) != 0:
        pytest.skip(f"processes may not be traced here: {os.strerror(ctypes.get_errno())}")
    try:
        os.kill(leader.pid, signal.SIGSTOP)
        assert os.waitpid(leader.pid, os.WUNTRACED)[0] == leader.pid
        look_for(a_watch(clock, tmp_path), clock, 60)
        assert state_of(leader.pid) in "Tt"
    finally:
        libc.ptrace(detach, leader.pid, None, None)
    assert leader.poll() is None


def test_a_leader_that_is_listed_as_stopped_and_traced_is_never_ended(
    start: Start, tmp_path: Path
) -> None:
    folder, proc = tmp_path / "state", tmp_path / "proc"
    leader, clock = a_leader(start, folder), a_clock()
    stop(leader.pid)
    seen = proc / str(leader.pid)
    seen.mkdir(parents=True)
    for name in ("fd", "fdinfo", "stat"):
        (seen / name).symlink_to(f"/proc/{leader.pid}/{name}")
    for name in ("self", "locks"):
        (proc / name).symlink_to(f"/proc/{name}")
    status = Path(f"/proc/{leader.pid}/status").read_text()
    (seen / "status").write_text(status.replace("TracerPid:\t0", f"TracerPid:\t{os.getpid()}"))
    watch = StoppedLeaderWatch(clock, folder / LOCK, folder / DATABASE, proc=proc)
    look_for(watch, clock, 60)
    assert leader.poll() is None
    (seen / "status").write_text(status)
    look_for(watch, clock, 60)
    assert leader.wait(30) == -signal.SIGKILL


def test_the_heir_of_a_dead_leaders_number_is_never_ended(start: Start, tmp_path: Path) -> None:
    """If a child has inherited the lock, the kernel lists the dead leader; its number is reused."""
    folder, proc = tmp_path / "state", tmp_path / "proc"
    a_leader(start, folder)
    heir = start(sys.executable, "-c", HOLD, str(folder), "free", "opened", ready="holds")
    stop(heir.pid)
    inode = (folder / LOCK).stat().st_ino
    proc.mkdir()
    for name in ("self", str(heir.pid)):
        (proc / name).symlink_to(f"/proc/{name}")
    (proc / "locks").write_text(f"1: FLOCK  ADVISORY  WRITE {heir.pid} 08:01:{inode} 0 EOF\n")
    clock = a_clock()
    watch = StoppedLeaderWatch(clock, folder / LOCK, folder / DATABASE, proc=proc)
    look_for(watch, clock, 60)
    assert heir.poll() is None


def test_a_number_that_changes_hands_before_the_signal_is_never_ended(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, clock = a_leader(start, tmp_path), a_clock()
    heir = start(sys.executable, "-c", HOLD, str(tmp_path), "free", "opened", ready="holds")
    watch = a_watch(clock, tmp_path)
    stop(leader.pid)
    stop(heir.pid)
    look_for(watch, clock, 9.5)
    open_descriptor = os.pidfd_open

    def open_after_the_change(process: int) -> int:
        """Return the descriptor that the number gives after the leader has ended."""
        assert process == leader.pid
        leader.kill()
        leader.wait()
        return open_descriptor(heir.pid)

    monkeypatch.setattr(os, "pidfd_open", open_after_the_change)
    look_for(watch, clock, 5)
    assert leader.returncode == -signal.SIGKILL
    assert heir.poll() is None


@pytest.mark.parametrize("mounted", [True, False])
def test_a_standby_in_a_container_ends_no_process_by_a_number_of_another_namespace(
    *, mounted: bool, start: Start, tmp_path: Path
) -> None:
    """With the host's /proc the numbers are the host's; with its own it does not see the leader."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root can make a namespace")
    leader = a_leader(start, tmp_path)
    stop(leader.pid)
    code = """
import os, subprocess, sys
from datetime import timedelta
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from navarch.app import watchdog
from tests.contract.test_watchdog import a_clock, a_watch, look_for
opened = []
os.pidfd_open = lambda *args: opened.append(args) or 1 / 0
clock = a_clock()
look_for(a_watch(clock, Path(sys.argv[1])), clock, 60)
assert not opened
print("looked", flush=True)
"""
    own = ["--mount-proc"] if mounted else []
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        ["unshare", "--pid", "--fork", *own, sys.executable, "-c", code, str(tmp_path), root],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "looked\n", done.stderr
    assert leader.poll() is None


WATCHED = """
import asyncio, re, sys, time
from datetime import timedelta
from navarch.app import watchdog
from navarch.clock import SystemClock
watchdog.PULSE_S, watchdog.GAP_S, watchdog.WRITING_S, watchdog.BUSY_THREADS = 0.05, 0.3, 0.5, 1
async def main():
    watch = watchdog.LoopWatchdog(
        SystemClock(), frozen_after=timedelta(seconds=1), settled_s=float(sys.argv[1])
    )
    task = asyncio.create_task(watch.run())
    await asyncio.sleep(0.3)
    print("runs", flush=True)
    {then}
    await asyncio.sleep(0.1)
    print("continued", flush=True)
asyncio.run(main())
"""
SETTLED, STARTING = "0.1", "300"
WAITS = "time.sleep(60)"
COMPUTES = "end = time.time() + 60\n    while time.time() < end: pass"
COMPUTES_IN_ONE_CALL = "re.match(r'(a+)+$', 'a' * 40 + 'b')"
WAITS_FOR_A_WHILE = "time.sleep(1.5)"


def run_watched(
    then: str, settled: str = SETTLED, *, stderr: int = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WATCHED.replace("{then}", then), settled],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        timeout=50,
        check=False,
    )


@pytest.mark.parametrize("then", [WAITS, COMPUTES])
def test_a_process_whose_loop_stands_still_ends_and_shows_where(then: str) -> None:
    done = run_watched(then)
    assert (done.returncode, done.stdout) == (1, "runs\n")
    assert "the event loop has stood still for 1 s" in done.stderr
    assert "in main" in done.stderr


def test_a_process_whose_loop_is_in_one_endless_call_ends_and_shows_where() -> None:
    done = run_watched(COMPUTES_IN_ONE_CALL)
    assert (done.returncode, done.stdout) == (-signal.SIGPROF, "runs\n")
    assert "in main" in done.stderr


def test_a_process_ends_although_its_message_cannot_be_written() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writer, True)
    done = run_watched(WAITS, stderr=writer)
    assert done.returncode == 1
    os.close(reader)
    os.close(writer)


def test_a_start_that_stands_still_is_not_ended() -> None:
    """Or a slow start would be repeated for ever."""
    done = run_watched(WAITS_FOR_A_WHILE, STARTING)
    assert done.returncode == 0
    assert done.stdout.startswith("runs\n")
    assert "server.loop_frozen" in done.stdout
    assert done.stdout.endswith("continued\n")


def test_a_process_that_was_paused_as_a_whole_is_not_ended(start: Start) -> None:
    code = WATCHED.replace("{then}", "await asyncio.sleep(1)")
    process = start(sys.executable, "-c", code, SETTLED, ready="runs")
    stop(process.pid)
    paused_at = time.monotonic()
    until(lambda: time.monotonic() > paused_at + 1.5)
    process.send_signal(signal.SIGCONT)
    assert process.stdout is not None
    assert process.stdout.readline() == "continued\n"
    assert process.wait(30) == 0


def test_a_process_in_a_python_debugger_is_not_ended(start: Start) -> None:
    process = start(
        sys.executable, "-c", WATCHED.replace("{then}", "breakpoint()"), SETTLED, ready="runs"
    )
    began = time.monotonic()
    until(lambda: time.monotonic() > began + 1.5)
    assert process.poll() is None
    output, _ = process.communicate("c\n", timeout=30)
    assert "continued" in output


def test_the_start_of_a_server_may_take_longer_than_its_limit_for_a_frozen_loop() -> None:
    """However long each freeze lasts: only a loop that ran for five minutes may be ended."""
    clock, ended = a_clock(), list[float]()
    watch = a_loop_watchdog(clock, ended)
    for _ in range(20):
        look_every_second(watch, clock, 40)
        watch.pulse()
        for _ in range(int(SETTLED_S) - 1):
            advance(clock, 1)
            watch.pulse()
            watch.look()
    assert not ended
    advance(clock, 1)
    watch.pulse()
    look_every_second(watch, clock, 31)
    assert ended == [31.0]


def test_a_frozen_start_is_logged_once() -> None:
    clock, ended = a_clock(), list[float]()
    watch = a_loop_watchdog(clock, ended)
    structlog.reset_defaults()
    with capture_logs() as lines:
        look_every_second(watch, clock, 100)
    assert [line["event"] for line in lines] == ["server.loop_frozen"]
    assert not ended


def a_loop_watchdog(clock: Clock, ended: list[float]) -> LoopWatchdog:
    return LoopWatchdog(clock, frozen_after=timedelta(seconds=30), end=ended.append)


def look_every_second(watch: LoopWatchdog, clock: Clock, seconds: int) -> None:
    for _ in range(seconds):
        advance(clock, 1)
        watch.look()


def test_without_a_limit_nothing_is_watched() -> None:
    async def main() -> None:
        await LoopWatchdog(a_clock(), frozen_after=timedelta(0)).run()

    asyncio.run(main())
    assert watchdog.PULSE_S
