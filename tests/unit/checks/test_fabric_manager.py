"""The fabric manager: what its unit and the journal show, and what follows for the machine."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from navarch.clock import SystemClock, SystemEntropy
from navarch.core.health import CheckResult, Health
from navarch.gpus.simulated import SimulatedGpus
from navarch.health.checks.fabric_manager import FabricManagerCheck
from navarch.hosts.fabric_manager import UNIT, parse_errors
from navarch.hosts.linux import LinuxHost
from navarch.hosts.simulated import SimulatedHost
from navarch.ports.checks import MachineView
from navarch.ports.gpu import Fabric, GpuHealth
from navarch.ports.host import FabricManager
from navarch.testing.worlds import NOW

RUN = "0123456789abcdef0123456789abcdef"
FATAL = "detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:86:00.0"
TOPOLOGY = "detected number of NVSwitches don't match with any supported system topology"
CLOCK, ENTROPY = SystemClock(), SystemEntropy()


def entry(message: object, **fields: object) -> str:
    trusted = {"_SYSTEMD_UNIT": UNIT, "_SYSTEMD_INVOCATION_ID": RUN, "PRIORITY": "3"}
    return json.dumps({"MESSAGE": message, **trusted, **fields})


def tool(path: Path, prints: str, status: int = 0) -> str:
    """Return a program that records its arguments and prints a text."""
    text = path.with_suffix(".text")
    text.write_text(prints)
    path.write_text(f'#!/bin/sh\necho "$@" >> {path}.calls\ncat {text}\nexit {status}\n')
    path.chmod(0o755)
    return str(path)


def a_host(root: Path, *, shown: str, entries: str = "", status: int = 0) -> LinuxHost:
    return LinuxHost(
        root / "proc",
        root / "sys",
        systemd=root,
        systemctl=tool(root / "systemctl", shown, status),
        journalctl=tool(root / "journalctl", entries),
    )


def unit(state: str = "active", sub: str = "running", load: str = "loaded") -> str:
    return f"LoadState={load}\nActiveState={state}\nSubState={sub}\nInvocationID={RUN}\n"


def test_the_errors_of_the_present_run_are_read_from_the_journal(tmp_path: Path) -> None:
    entries = "\n".join([entry(FATAL), entry(f"[Jul 23 2026 07:53:55] [ERROR] [tid 8] {TOPOLOGY}")])
    host = a_host(tmp_path, shown=unit(), entries=entries)

    assert host.fabric_manager() == FabricManager(state="active", errors=(FATAL, TOPOLOGY))
    (call,) = (tmp_path / "journalctl.calls").read_text().splitlines()
    assert call.endswith(f"_SYSTEMD_UNIT={UNIT} _SYSTEMD_INVOCATION_ID={RUN}")


@pytest.mark.parametrize(
    "line",
    [
        entry(FATAL, _SYSTEMD_UNIT="user@1000.service"),
        entry(FATAL, _SYSTEMD_UNIT="user@1000.service", UNIT=UNIT, SYSLOG_IDENTIFIER="nv-fabric"),
        entry(FATAL, _SYSTEMD_INVOCATION_ID="f" * 32),
        json.dumps({"MESSAGE": FATAL, "PRIORITY": "3", "_TRANSPORT": "kernel"}),
        entry("multicast group 0 is allocated.", PRIORITY="6"),
        entry(None),
        "not JSON",
        "[]",
    ],
    ids=["another unit", "claims", "earlier run", "kernel", "information", "empty", "text", "list"],
)
def test_an_entry_that_is_not_an_error_of_this_run_of_the_unit_does_not_count(line: str) -> None:
    assert list(parse_errors(line, RUN)) == []


def test_an_entry_that_journald_wrote_as_numbers_is_read() -> None:
    assert list(parse_errors(entry([*FATAL.encode()]), RUN)) == [FATAL]


@pytest.mark.parametrize(
    ("shown", "status"),
    [(unit("inactive", "dead", load="not-found"), 0), ("", 0), (unit(), 1)],
    ids=["no unit", "nothing", "systemctl fails"],
)
def test_a_machine_without_the_unit_has_no_fabric_manager(
    tmp_path: Path, shown: str, status: int
) -> None:
    assert a_host(tmp_path, shown=shown, status=status).fabric_manager() is None


def test_a_machine_without_systemd_or_its_tools_has_no_fabric_manager(tmp_path: Path) -> None:
    assert LinuxHost(systemd=tmp_path / "none").fabric_manager() is None
    missing = str(tmp_path / "missing")
    assert LinuxHost(systemd=tmp_path, systemctl=missing).fabric_manager() is None


def test_a_journal_that_cannot_be_read_leaves_the_state(tmp_path: Path) -> None:
    host = a_host(tmp_path, shown=unit("failed", "failed"))
    (tmp_path / "journalctl").unlink()
    assert host.fabric_manager() == FabricManager(state="failed")


def test_a_unit_that_is_restarted_again_and_again_has_failed(tmp_path: Path) -> None:
    manager = a_host(tmp_path, shown=unit("activating", "auto-restart")).fabric_manager()
    assert manager is not None
    assert manager.state == "failed"


def test_nvswitches_are_counted_on_the_bus(tmp_path: Path) -> None:
    kinds = [("0x10de", "0x068000"), ("0x10de", "0x030200"), ("0x8086", "0x068000")]
    for number, (vendor, kind) in enumerate(kinds):
        device = tmp_path / f"sys/bus/pci/devices/0000:0{number}:00.0"
        device.mkdir(parents=True)
        (device / "vendor").write_text(f"{vendor}\n")
        (device / "class").write_text(f"{kind}\n")
    assert LinuxHost(tmp_path / "proc", tmp_path / "sys").nvswitches() == 1


class Gpus(SimulatedGpus):
    """Eight GPUs, of which some are in a fabric."""

    fabrics: tuple[Fabric | None, ...] = ()

    def health(self, gpu: object) -> GpuHealth:
        return replace(GpuHealth(), fabric=self.fabrics[gpu.index])  # type: ignore[attr-defined]


def checked(
    manager: FabricManager | None, fabrics: tuple[Fabric | None, ...], switches: int = 0
) -> CheckResult:
    gpus = Gpus(CLOCK, ENTROPY, count=len(fabrics), seed="x")
    gpus.fabrics = fabrics
    host = SimulatedHost(CLOCK, ENTROPY, "n", manager=manager, switches=switches)
    (result,) = FabricManagerCheck().run(MachineView(now=NOW, gpus=gpus, host=host))
    assert not result.fatal
    return result


DONE, STARTS = Fabric(state=3), Fabric(state=2)
FAILED = FabricManager(state="failed", errors=("first", TOPOLOGY))


@pytest.mark.parametrize(
    ("manager", "fabrics", "switches", "health", "reason"),
    [
        (
            FAILED,
            (STARTS,) * 3,
            4,
            Health.UNHEALTHY,
            f"no NVLink fabric for GPU 0, 1, 2: {TOPOLOGY}",
        ),
        (FAILED, (DONE, STARTS), 4, Health.UNHEALTHY, "no NVLink fabric for GPU 1"),
        (FAILED, (None, None), 6, Health.UNHEALTHY, "no NVLink fabric for its GPUs"),
        (FAILED, (DONE, DONE), 4, Health.DEGRADED, "the NVLink fabric still works"),
        (FabricManager(state="inactive"), (STARTS,), 4, Health.UNHEALTHY, "does not run"),
        (
            FabricManager(state="active", errors=(TOPOLOGY,)),
            (STARTS,),
            3,
            Health.UNHEALTHY,
            TOPOLOGY,
        ),
        (FabricManager(state="active", errors=(TOPOLOGY,)), (DONE,), 3, Health.DEGRADED, TOPOLOGY),
        (FabricManager(state="active", errors=(FATAL,)), (DONE,), 4, Health.UNHEALTHY, "20034"),
        (
            FabricManager(state="active", errors=("detected NVSwitch non-fatal error 12028",)),
            (DONE,),
            4,
            Health.DEGRADED,
            "12028",
        ),
    ],
    ids=[
        "all GPUs",
        "one GPU",
        "no state",
        "still works",
        "not running",
        "resident",
        "works",
        "fatal",
        "not fatal",
    ],
)
def test_a_fault_of_the_fabric_manager_is_as_grave_as_what_it_takes_away(
    manager: FabricManager,
    fabrics: tuple[Fabric | None, ...],
    switches: int,
    health: Health,
    reason: str,
) -> None:
    result = checked(manager, fabrics, switches)
    assert result.health is health
    assert reason in result.reason


@pytest.mark.parametrize(
    ("manager", "fabrics", "switches"),
    [
        (FAILED, (None,) * 8, 0),
        (None, (STARTS,) * 8, 4),
        (FabricManager(state="inactive"), (DONE,) * 8, 4),
        (FabricManager(state="inactive"), (None,) * 8, 4),
        (FabricManager(state="activating"), (STARTS,) * 8, 4),
        (FabricManager(state="active"), (DONE,) * 8, 4),
    ],
    ids=["no switches", "no unit", "runs elsewhere", "no state", "starts", "sound"],
)
def test_a_machine_on_which_the_fabric_manager_is_not_at_fault_is_healthy(
    manager: FabricManager | None, fabrics: tuple[Fabric | None, ...], switches: int
) -> None:
    assert checked(manager, fabrics, switches).health is Health.HEALTHY
