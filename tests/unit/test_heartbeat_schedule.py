"""Heartbeat schedules: the next heartbeat, computed at any time."""

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from navarch.sim.world.liveness import HeartbeatSchedule

SCHEDULES = st.builds(
    HeartbeatSchedule.of,
    st.text(max_size=8),
    started_s=st.floats(0, 1e6),
    interval_s=st.sampled_from([0.1, 1.0, 10.0, 30.0, 7.3]),
)


@given(SCHEDULES, st.integers(0, 300), st.booleans(), st.sampled_from([0.0, -1e-9, 1e-9, 0.3]))
def test_the_next_heartbeat_is_the_first_of_all_that_is_later(
    schedule: HeartbeatSchedule, beat: int, at_a_beat: bool, off_s: float
) -> None:
    # Around the times at which the answer changes: those of the heartbeats themselves.
    now_s = (schedule.starts_at(beat) if at_a_beat else schedule.started_s + beat) + off_s

    following = next(each for each in count() if schedule.starts_at(each) > now_s)

    assert schedule.next_start(now_s) == (following, schedule.starts_at(following))
    if following:
        assert schedule.last_by(now_s) == schedule.starts_at(following - 1)
