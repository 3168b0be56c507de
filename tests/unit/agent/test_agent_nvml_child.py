"""The child process that calls the driver, and its replacement when the driver hangs."""

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.nvml_stand_in import Mood, build_stand_in, set_mood

from navarch.clock import SystemClock
from navarch.gpus.child import NvmlChild
from navarch.gpus.nvml import NvmlGpus
from navarch.ports.gpu import GpuError, GpuHungError, GpuLostError


@dataclass
class AdvanceableClock:
    """Real time that a test can advance."""

    ahead_s: float = 0.0
    real: SystemClock = field(default_factory=SystemClock)

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return self.real.monotonic() + self.ahead_s

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError(seconds)


@dataclass
class Machine:
    child: NvmlChild
    clock: AdvanceableClock
    mood: Path


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    built = build_stand_in(tmp_path_factory.mktemp("nvml"))
    if built is None:
        pytest.skip("there is no C compiler to make a stand-in with")
    return str(built)


@pytest.fixture
def machine(library: str, tmp_path: Path) -> Iterator[Machine]:
    mood, clock = tmp_path / "mood", AdvanceableClock()
    set_mood(mood, Mood.WELL)
    environ = {**os.environ, "NAVARCH_NVML_LIBRARY": library, "STAND_IN_MOOD": str(mood)}
    child = NvmlChild(clock, environ=environ, answer_s=0.5, start_s=20.0, rest_s=(5.0, 60.0))
    yield Machine(child, clock, mood)
    child.close()


def test_the_child_returns_the_drivers_readings(
    machine: Machine, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_MOOD", str(machine.mood))
    direct = NvmlGpus(machine.clock, library=library)

    gpus = machine.child.list_gpus()

    assert list(gpus) == list(direct.list_gpus())
    assert machine.child.health(gpus[1]) == direct.health(gpus[1])
    assert machine.child.metrics(gpus[0]) == direct.metrics(gpus[0])
    assert machine.child.events() == []


def test_a_hung_driver_call_times_out_and_is_not_retried_at_once(
    machine: Machine,
) -> None:
    machine.child.list_gpus()
    first = machine.child.pid
    set_mood(machine.mood, Mood.HANG)

    with pytest.raises(GpuHungError, match=r"did not respond within 0\.5 s"):
        machine.child.list_gpus()
    assert machine.child.pid is None
    set_mood(machine.mood, Mood.WELL)
    with pytest.raises(GpuHungError, match="is not retried yet"):
        machine.child.list_gpus()

    machine.clock.ahead_s += 5.0
    assert len(machine.child.list_gpus()) == 2
    assert machine.child.pid != first


def test_a_driver_that_keeps_hanging_is_called_less_often(machine: Machine) -> None:
    set_mood(machine.mood, Mood.HANG)
    child = NvmlChild(
        machine.clock, command=("sleep", "60"), answer_s=0.01, start_s=0.01, rest_s=(5.0, 60.0)
    )

    asked_after = []
    for second in range(100):
        machine.clock.ahead_s += 1.0
        try:
            child.list_gpus()
        except GpuHungError as error:
            if "within" in str(error):
                asked_after.append(second)

    assert asked_after[:4] == [0, 5, 15, 35]


def test_a_child_that_dies_is_an_error_and_is_replaced(machine: Machine) -> None:
    machine.child.list_gpus()
    assert machine.child.pid is not None
    os.kill(machine.child.pid, signal.SIGKILL)

    with pytest.raises(GpuError, match="died of signal 9"):
        machine.child.list_gpus()
    machine.clock.ahead_s += 5.0
    assert len(machine.child.list_gpus()) == 2


def test_a_malformed_reply_of_the_child_is_an_error(machine: Machine) -> None:
    nonsense = (
        "import sys; sys.stdout.buffer.write(b'\\x04\\0\\0\\0what'); sys.stdout.flush(); input()"
    )
    child = NvmlChild(machine.clock, command=(sys.executable, "-c", nonsense))

    with pytest.raises(GpuError, match="died"):
        child.list_gpus()


def test_errors_and_lost_gpus_survive_the_process_boundary(machine: Machine) -> None:
    well, lost = machine.child.list_gpus()
    set_mood(machine.mood, Mood.LOST)

    assert machine.child.health(well).temperature_c == 61.0
    with pytest.raises(GpuLostError, match="GPU is lost"):
        machine.child.health(lost)
    set_mood(machine.mood, Mood.ERRORS)
    with pytest.raises(GpuError, match="nvmlDeviceGetCount_v2"):
        machine.child.list_gpus()


def test_event_numbers_continue_across_children(machine: Machine) -> None:
    set_mood(machine.mood, Mood.FLOOD)
    first = machine.child.events()
    assert machine.child.pid is not None
    os.kill(machine.child.pid, signal.SIGKILL)
    with pytest.raises(GpuError):
        machine.child.events()
    machine.clock.ahead_s += 5.0

    second = machine.child.events()

    assert [event.number for event in second] == list(range(1, len(first) + 1001))
    machine.child.settle(1500)
    set_mood(machine.mood, Mood.WELL)
    assert machine.child.events()[0].number == 1501


def test_without_a_driver_the_child_reports_it(tmp_path: Path) -> None:
    environ = {**os.environ, "NAVARCH_NVML_LIBRARY": str(tmp_path / "none.so")}
    child = NvmlChild(SystemClock(), environ=environ)

    with pytest.raises(GpuError, match="no NVIDIA driver"):
        child.list_gpus()
    child.close()
