"""A crash at every single call to the outside, before its effect and after."""

from contextlib import suppress

import pytest

from navarch.core.errors import NotPossibleError
from navarch.core.ids import NodeId, PoolName
from navarch.providers.simulated import Habits
from navarch.sim.world.leader import CrashPoint
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import STORMY, a_pool

TRAINING = PoolName("training")
POOL = a_pool(size=2, nodes_max=3)
LAGGING = Habits(listing_lag_s=30.0, lie=0.1)
CHUNKS = 12
LONG_S = 3 * 3600
"""A storm may let all machines of an hour fail, and then a pool pauses for the rest of it."""


async def a_busy_hour(world: World) -> None:
    """Fill a pool, lose a node to hardware and one to silence, grow, shrink, come to rest."""
    await world.until(lambda: len(world.serving(TRAINING)) == 2, within_s=LONG_S)
    looked_at = world.serving(TRAINING)[0]
    await world.ask(lambda fleet: fleet.cordon(looked_at, reason="looking at it"))
    await world.clock.sleep(30)
    with suppress(NotPossibleError):  # It was lifted, and the answer was lost in the crash.
        await world.ask(lambda fleet: fleet.uncordon(looked_at))
    await world.clock.sleep(30)
    world.fail(looked_at, "XID 79: GPU has fallen off the bus")
    await world.clock.sleep(600)
    await world.until(lambda: len(world.serving(TRAINING)) == 2, within_s=LONG_S)
    await world.ask(lambda fleet: fleet.scale(TRAINING, 3, reason="more work"))
    await world.clock.sleep(300)
    await world.ask(lambda fleet: fleet.scale(TRAINING, 2, reason="less work"))
    await world.clock.sleep(300)
    if serving := world.serving(TRAINING):
        world.silence(NodeId(serving[-1]))
    await world.clock.sleep(1200)
    await world.converge()
    await world.clock.sleep(10)  # So that the last call has ended, and a crash after it counts.


def calls_of_an_untouched_run() -> int:
    world = simulate(a_busy_hour, seed=1, pools=[POOL], habits=LAGGING)
    return world.leadership.crash_point.calls


CALLS = calls_of_an_untouched_run()


def test_the_story_has_calls_worth_crashing_at() -> None:
    world = simulate(a_busy_hour, seed=1, pools=[POOL], habits=LAGGING)
    kinds = {what.partition(" ")[0] for what in world.leadership.crash_point.log}
    closing = {"cordon", "uncordon", "drain", "is_drained"}
    assert {"commit", "provision", "terminate", "list", *closing} <= kinds


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("after", [False, True], ids=["before its effect", "after its effect"])
def test_a_crash_at_any_call_leaves_no_machine_leaked_doubled_or_lost(
    after: bool, chunk: int
) -> None:
    for at in range(chunk, CALLS, CHUNKS):
        crash_point = CrashPoint(at=at, after=after)
        world = simulate(a_busy_hour, seed=1, pools=[POOL], habits=LAGGING, crash_point=crash_point)
        assert world.leadership.crashes == 1, f"no crash at call {at} of {CALLS}"


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 22))
def test_a_crash_in_a_storm_leaves_no_machine_leaked_doubled_or_lost(seed: int) -> None:
    untouched = simulate(a_busy_hour, seed=seed, pools=[POOL], habits=STORMY, error_rate=0.1)
    # A storm has many hundred calls; forty of them for each seed are spread over all kinds.
    step = max(1, untouched.leadership.crash_point.calls // 40)
    for at in range(seed % step, untouched.leadership.crash_point.calls, step):
        crash_point = CrashPoint(at=at, after=bool((at + seed) % 2))
        simulate(
            a_busy_hour,
            seed=seed,
            pools=[POOL],
            habits=STORMY,
            error_rate=0.1,
            crash_point=crash_point,
        )
