"""Crashes recorded on an H200, through agent, control plane and default policy."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from tests.support.direct_link import DirectLink

from navarch.agent.recording import read_recording
from navarch.agent.replay import replay
from navarch.app.control_plane import Plane
from navarch.core.health import Health
from navarch.core.ids import NodeId
from navarch.core.incident import IncidentKind, IncidentState
from navarch.core.ownership import Cluster
from navarch.health.checks.standard import standard_checks
from navarch.hosts.simulated import SimulatedHost
from navarch.service.agents import Timing
from navarch.sim.kernel.clock import SeededEntropy, SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.sim.world.effects import SimWorkloads
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable

TRACE = Path(__file__).parents[4] / "shared" / "data" / "h200" / "h200_trace.jsonl"
NODE = NodeId("recorded")


def lived_through(lines: list[bytes]) -> MemoryStore:
    async def main() -> MemoryStore:
        clock = SimClock()
        store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
        plane = Plane(
            clock,
            SeededEntropy("control"),
            store,
            providers=[],
            notifier=SimWorkloads(clock, SeededEntropy("w"), 0.0),
            liveness=TelemetryTable(clock, timeout=Timing().silence, nodes=[]),
            strict=True,
        )
        async with asyncio.TaskGroup() as tasks:
            life = tasks.create_task(plane.run())
            await replay(
                clock,
                SeededEntropy("replay"),
                read_recording(lines),
                DirectLink(clock, lambda: plane.agents),
                SimulatedHost(clock, SeededEntropy("host"), "recorded"),
                standard_checks(),
                node=NODE,
            )
            life.cancel()
        return store

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        return runner.run(main())


def test_nine_application_faults_become_eight_incidents_and_no_cordon() -> None:
    """Out of bounds three times, misaligned, shared memory, trap, assert, stack overflow; and an
    endless kernel that was killed, which leaves no trace."""
    if not TRACE.exists():
        pytest.skip(f"no {TRACE}")

    store = lived_through(TRACE.read_bytes().splitlines())

    incidents = list(store.fleet().incidents.values())
    assert len(incidents) == 8
    assert {incident.kind for incident in incidents} == {IncidentKind.APPLICATION}
    assert len({incident.pid for incident in incidents}) == 8
    causes = Counter((incident.code, incident.action) for incident in incidents)
    assert causes == {("31", "restart_app"): 3, ("13", "restart_app"): 3, ("43", "none"): 2}
    overflow = next(incident for incident in incidents if len(incident.symptoms) > 1)
    assert [symptom.code for symptom in overflow.symptoms] == ["13", "43"]
    node = store.fleet().nodes[NODE]
    assert (node.health, node.conditions, node.cordoned) == (Health.HEALTHY, (), None)
    assert {incident.state for incident in incidents} <= {
        IncidentState.OPEN,
        IncidentState.RESOLVED,
    }
    events = asyncio.run(_events(store))
    assert events["incident.opened"] == 8


async def _events(store: MemoryStore) -> Counter[str]:
    return Counter(entry.event.kind for entry in await store.events())
