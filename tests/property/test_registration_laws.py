"""A report sent with a registration has the effect of one sent right after it."""

import asyncio
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from navarch.core.fleet import Change, Fleet
from navarch.core.health import BOOT, HEARTBEAT, CheckResult, Condition, Health, HealthReport
from navarch.core.ids import NodeId
from navarch.core.instance import Gpu, Inventory
from navarch.core.node import Node, Phase
from navarch.core.ownership import Cluster
from navarch.core.records import evolve
from navarch.ports.agents import Registration
from navarch.service.agents import AgentService
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.stores.telemetry import TelemetryTable
from navarch.testing.worlds import NOW, a_node, a_pool, indexed

NAME = NodeId("training-0")
CHECKS = [BOOT, "gpu", "xid/79/GPU-1", "xid/31/GPU-1"]

results = st.builds(
    CheckResult,
    check=st.sampled_from(CHECKS),
    health=st.sampled_from(Health),
    fatal=st.booleans(),
    lasting=st.booleans(),
)
reports = st.builds(
    HealthReport,
    results=st.lists(results, max_size=4, unique_by=lambda result: result.check).map(tuple),
    stream=st.just("s"),
    number=st.integers(0, 3),
    boot_id=st.sampled_from(["", "b1", "b2"]),
)
conditions = st.builds(
    Condition,
    check=st.sampled_from([*CHECKS, HEARTBEAT]),
    health=st.sampled_from([Health.DEGRADED, Health.UNHEALTHY]),
    reason=st.just("bad"),
    since=st.just(NOW),
    fatal=st.booleans(),
    lasting=st.booleans(),
    boot_id=st.sampled_from(["", "b1", "b2"]),
)
befores = st.none() | st.builds(
    lambda phase, registered, found, number: a_node(
        NAME,
        phase=phase,
        registered_at=NOW if registered else None,
        boot_id="b1" if registered else "",
        conditions=tuple(found),
        health=Health.UNHEALTHY if found else Health.HEALTHY,
        report_stream="s",
        report_number=number,
    ),
    st.sampled_from([Phase.BOOTING, Phase.READY, Phase.DRAINING]),
    st.booleans(),
    st.lists(conditions, max_size=2, unique_by=lambda condition: condition.check),
    st.integers(0, 2),
)


def outcome(
    before: Node | None, registration: Registration, *, apart: bool
) -> tuple[Fleet, list[object], str]:
    """Return the fleet, the journal and the status after a registration and its report."""

    async def main() -> tuple[Fleet, list[object], str]:
        clock = SimClock()
        store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
        agents = AgentService(
            clock,
            store,
            indexed(store),
            TelemetryTable(clock, timeout=timedelta(seconds=90)),
        )
        nodes = [] if before is None else [before]
        await store.commit(Change(pools=[a_pool()], nodes=nodes), based_on=0)
        assert registration.report is not None
        if apart:
            await agents.register(evolve(registration, report=None))
            status = await agents.report_health(NAME, registration.report) or ""
        else:
            status = (await agents.register(registration)).status
        journal: list[object] = [entry.event for entry in await store.events()]
        return evolve(store.fleet(), revision=0), journal, status

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        return runner.run(main())


@given(before=befores, report=reports, boot_id=st.sampled_from(["b1", "b2"]))
def test_one_message_has_the_effect_of_two(
    before: Node | None, report: HealthReport, boot_id: str
) -> None:
    inventory = Inventory(gpus=(Gpu(index=0, uuid="GPU-1"),))
    registration = Registration(node=NAME, boot_id=boot_id, inventory=inventory, report=report)

    assert outcome(before, registration, apart=False) == outcome(before, registration, apart=True)
