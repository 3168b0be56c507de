"""A crash at every call to a machine of the rack, every lease, and every commit in between."""

import hashlib
import subprocess
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from navarch.core.ids import ProviderName
from navarch.core.launch import Offering
from navarch.ports.clock import Clock, Offload
from navarch.ports.provider import Provider
from navarch.ports.shell import Login, Ran, Shell, ShellError
from navarch.providers.baremetal import BareMetal, FolderLeases, Host, Inventory
from navarch.sim.world.leader import CrashPoint
from navarch.testing.adapter_sweep import SweptFleet, TrippedOffload, sweep_once

OFFERING = Offering(provider=ProviderName("rack"), instance_type="h100-8x", region="here")
CLEAN = "rm -rf work && echo cleaned >> history"
HOSTS = 4
A_FEW = 12


@dataclass(slots=True)
class Rack:
    """Folders as machines. A real shell runs commands in them."""

    folder: Path
    lose_every: int = 0
    """Every n-th response is lost, after the command took effect."""
    answers: int = 0
    owners: set[str] = field(default_factory=set)
    """Every owner that ever claimed a machine."""

    def is_lost(self) -> bool:
        self.answers += 1
        return bool(self.lose_every) and self.answers % self.lose_every == 0

    def home(self, address: str) -> Path:
        home = self.folder / address
        home.mkdir(parents=True, exist_ok=True)
        return home

    def claimed(self) -> set[str]:
        """Return the instance ids of claimed machines, from the claims on the machines."""
        found = set()
        for claim in self.folder.glob("*/claim"):
            token = claim.read_text().split()[1]
            suffix = hashlib.sha256(token.encode()).hexdigest()[:10]
            found.add(f"{claim.parent.name}.{suffix}")
        return found


@dataclass(slots=True)
class TrippedShells:
    """Shells with a possible crash before or after each command."""

    rack: Rack
    wire: CrashPoint

    async def connect(self, login: Login, *, within: timedelta) -> Shell:
        async def effect() -> Shell:
            return _TrippedShell(self, login.address)

        del within
        return await self.wire.call("connect", effect)


@dataclass(slots=True)
class _TrippedShell:
    shells: TrippedShells
    address: str
    host_key: str = "k"

    async def run(self, command: str, *, within: timedelta) -> Ran:
        async def effect() -> Ran:
            home = self.shells.rack.home(self.address)
            ran = _ran(command, home, within)
            if (home / "claim").exists():
                self.shells.rack.owners.add((home / "claim").read_text())
            if self.shells.rack.is_lost():
                raise ShellError(f"{self.address}: the connection was lost")
            return ran

        return await self.shells.wire.call(f"run {command[:12]}", effect)

    async def close(self) -> None:
        pass


def _ran(command: str, home: Path, within: timedelta) -> Ran:
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
        timeout=within.total_seconds(),
    )
    return Ran(exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr)


def live(folder: Path, wire: CrashPoint, *, lose_every: int = 0) -> SweptFleet:
    rack = Rack(folder / "machines", lose_every)
    hosts = {
        f"r{index}": Host(
            name=f"r{index}", address=f"r{index}", instance_type="h100-8x", host_key="k"
        )
        for index in range(HOSTS)
    }

    def build(clock: Clock, offload: Offload) -> Provider:
        assert isinstance(offload, TrippedOffload)
        return BareMetal(
            clock,
            offload,
            TrippedShells(rack, offload.wire),
            name="rack",
            inventory=Inventory(hosts=hosts),
            leases=FolderLeases(folder / "leases"),
            clean_up=[CLEAN],
            claim_path="claim",
        )

    swept = sweep_once(build, OFFERING, alive=rack.claimed, wire=wire)
    assert rack.claimed() == set(), f"call {wire.at} of {wire.log}"
    assert list((folder / "leases").glob("*.json")) == []
    cleaned = sum(file.read_text().count("cleaned") for file in rack.folder.glob("*/history"))
    assert cleaned >= 3, "every lease was cleaned up"
    # Three machines in all: none was claimed only to be returned.
    assert len(rack.owners) == 3, f"call {wire.at} of {wire.log}"
    return swept


@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after its effect"])
def test_a_crash_at_a_sampled_call_leaves_no_machine_leased_or_claimed(
    tmp_path: Path, after: bool
) -> None:
    calls = live(tmp_path / "calm", CrashPoint()).wire.calls
    for at in range(int(after), calls, calls // A_FEW):
        assert live(tmp_path / f"{at}", CrashPoint(at=at, after=after)).crashes == 1


@pytest.mark.parametrize("lose_every", [4, 5, 7])  # a termination needs three responses in a row
def test_lost_connections_leave_no_machine_leased_or_claimed(
    tmp_path: Path, lose_every: int
) -> None:
    calls = live(tmp_path / "calm", CrashPoint(), lose_every=lose_every).wire.calls
    for at in range(1, calls, calls // 3):
        wire = CrashPoint(at=at, after=True)
        assert live(tmp_path / f"{at}", wire, lose_every=lose_every).crashes == 1


@pytest.mark.long
@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after its effect"])
def test_a_crash_at_any_call_leaves_no_machine_leased_or_claimed(
    tmp_path: Path, after: bool
) -> None:
    calls = live(tmp_path / "calm", CrashPoint()).wire.calls
    for at in range(calls):
        assert live(tmp_path / f"{at}", CrashPoint(at=at, after=after)).crashes == 1
