"""Schedules of computed heartbeats."""

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from navarch.sim.world.heartbeats import HeartbeatSchedule

SCHEDULES = st.builds(
    HeartbeatSchedule.of,
    st.text(max_size=8),
    started_s=st.floats(0, 1e6),
    interval_s=st.sampled_from([0.1, 1.0, 10.0, 30.0, 7.3]),
    instant=st.booleans(),
)


@given(SCHEDULES, st.integers(0, 300), st.integers(0, 2), st.sampled_from([0.0, -1e-9, 1e-9, 0.3]))
def test_the_next_heartbeat_is_the_first_that_starts_or_arrives_later(
    schedule: HeartbeatSchedule, beat: int, message: int, off_s: float
) -> None:
    # Close to the moments at which the answer changes: those of the heartbeats.
    known = (schedule.starts_at(beat), schedule.arrives_at(beat), schedule.started_s + beat)
    now_s = known[message] + off_s

    starting = next(each for each in count() if schedule.starts_at(each) > now_s)
    arriving = next(each for each in count() if schedule.arrives_at(each) > now_s)

    assert schedule.next_start(now_s) == (starting, schedule.starts_at(starting))
    assert schedule.first_arrival_after(now_s) == arriving
