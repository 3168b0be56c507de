"""Pulses: which beat comes next, whoever asks and whenever."""

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from navarch.sim.world.heartbeats import HeartbeatSchedule

PULSES = st.builds(
    HeartbeatSchedule.of,
    st.text(max_size=8),
    started_s=st.floats(0, 1e6),
    interval_s=st.sampled_from([0.1, 1.0, 10.0, 30.0, 7.3]),
    instant=st.booleans(),
)


@given(PULSES, st.integers(0, 300), st.integers(0, 2), st.sampled_from([0.0, -1e-9, 1e-9, 0.3]))
def test_the_next_beat_is_the_first_of_all_that_begins_or_arrives_later(
    pulse: HeartbeatSchedule, beat: int, message: int, off_s: float
) -> None:
    # Around the moments at which something changes: those of the beats themselves.
    known = (pulse.starts_at(beat), pulse.arrives_at(beat), pulse.started_s + beat)
    now_s = known[message] + off_s

    starting = next(each for each in count() if pulse.starts_at(each) > now_s)
    arriving = next(each for each in count() if pulse.arrives_at(each) > now_s)

    assert pulse.next_start(now_s) == (starting, pulse.starts_at(starting))
    assert pulse.first_arrival_after(now_s) == arriving
