"""Laws of computed liveness."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from navarch.core.ids import NodeId
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.running import run_simulated
from navarch.sim.world.heartbeats import HeartbeatSchedule
from navarch.sim.world.liveness import ComputedLiveness
from navarch.stores.telemetry import TelemetryTable

NAMES = [NodeId(name) for name in "abcde"]
steps = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.sampled_from(["heard", "rest", "rise", "forget", "restart"]),
        st.floats(0, 100, allow_nan=False),
    ),
    max_size=60,
)


@given(steps)
def test_the_first_overdue_node_is_the_same_as_by_checking_every_node(
    steps: list[tuple[NodeId, str, float]],
) -> None:
    async def story() -> None:
        clock, resting = SimClock(), dict[NodeId, HeartbeatSchedule]()

        def begin(nodes: list[NodeId]) -> ComputedLiveness:
            timeout = timedelta(seconds=90)
            return ComputedLiveness(clock, timeout=timeout, nodes=nodes, suspended=resting)

        hearing = begin(NAMES[:2])
        known = set(NAMES[:2])
        for node, what, pause_s in steps:
            await clock.sleep(pause_s)
            if what == "restart":
                hearing = begin(sorted(known))
            elif what == "forget":
                hearing.forget(node)
                known.discard(node)
            elif node in resting:
                if what == "rise":
                    hearing.resume(node, resting[node])
            elif what == "heard":
                hearing.heard(node)
                known.add(node)
            elif what == "rest" and node in known:
                hearing.suspend(node, HeartbeatSchedule.of(node, started_s=0.0, interval_s=10.0))
            assert hearing.overdue_from() == TelemetryTable.overdue_from(hearing)

    run_simulated(story())
