"""Laws of computed liveness."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from navarch.core.ids import NodeId
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import run_simulated
from navarch.sim.world.liveness import ComputedLiveness, HeartbeatSchedule
from navarch.stores.telemetry import TelemetryTable

NAMES = [NodeId(name) for name in "abcde"]
steps = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.sampled_from(["heartbeat", "suspend", "resume", "forget", "restart"]),
        st.floats(0, 100, allow_nan=False),
    ),
    max_size=60,
)


@given(steps)
def test_the_first_overdue_node_is_the_same_as_by_checking_every_node(
    steps: list[tuple[NodeId, str, float]],
) -> None:
    async def story() -> None:
        clock, suspended = SimClock(), dict[NodeId, HeartbeatSchedule]()

        def begin(nodes: list[NodeId]) -> ComputedLiveness:
            timeout = timedelta(seconds=90)
            return ComputedLiveness(clock, timeout=timeout, nodes=nodes, suspended=suspended)

        liveness = begin(NAMES[:2])
        known = set(NAMES[:2])
        for node, what, pause_s in steps:
            await clock.sleep(pause_s)
            if what == "restart":
                liveness = begin(sorted(known))
            elif what == "forget":
                liveness.forget(node)
                known.discard(node)
            elif node in suspended:
                if what == "resume":
                    liveness.resume(node, suspended[node])
            elif what == "heartbeat":
                liveness.record_heartbeat(node)
                known.add(node)
            elif what == "suspend" and node in known:
                liveness.suspend(node, HeartbeatSchedule.of(node, started_s=0.0, interval_s=10.0))
            assert liveness.overdue_from() == TelemetryTable.overdue_from(liveness)

    run_simulated(story())
