"""Several control planes share one store: one leads, and two never act at once."""

import pytest
import yaml

from navarch.core.ids import PoolName
from navarch.providers.simulated import Habits
from navarch.sim.runner.outcome import Outcome
from navarch.sim.runner.runner import run_scenario
from navarch.sim.scenario.loading import parse_scenario
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import STORMY, a_pool

TRAINING = PoolName("training")

FAILOVER = """
name: failover
timing: {heartbeat_interval: 5s, heartbeat_timeout: 30s, health_check_interval: 5s}
providers: {cloud: {boot_min: 1m, boot_max: 2m}}
pools: {training: {provider: cloud, instance_type: h100-8x, min_nodes: 40, max_nodes: 42}}
control_plane: {replicas: 1, crashes: [{at: 10m, down_for: 5m}, {at: 20m, down_for: 5m}]}
duration: 40m
events:
  - {at: 601s, action: inject_failure, target: training-1,
     params: {failure_type: xid_error, xid_code: 79}}
  - {at: 1201s, action: inject_failure, target: training-2,
     params: {failure_type: xid_error, xid_code: 79}}
assertions:
  - {type: node_count, target: training, expected: "40"}
"""


def failover(**plane: object) -> Outcome:
    plain = yaml.safe_load(FAILOVER)
    plain["control_plane"] |= plane
    return run_scenario(parse_scenario(yaml.safe_dump(plain)), seed=3)


def test_a_standby_takes_over_in_a_second() -> None:
    alone, together = failover(), failover(replicas=2)

    assert alone.passed
    assert together.passed
    assert alone.crashes == together.crashes == 2
    found = (alone.figures.detection.max_s, together.figures.detection.max_s)
    assert found[0] is not None
    assert found[1] is not None
    assert found[0] > 290
    assert found[1] < 15


def test_after_all_replicas_died_the_first_to_return_leads() -> None:
    crashes = [{"at": "10m", "down_for": "5m"}, {"at": "602s", "down_for": "4m"}]
    outcome = failover(replicas=2, crashes=crashes)

    assert outcome.passed
    found = outcome.figures.detection.max_s
    assert found is not None
    assert 235 < found < 260, "the second one to die is the first to be back"


def test_a_slow_takeover_delays_detection() -> None:
    slow = failover(replicas=2, takeover="2m").figures.detection.max_s

    assert slow is not None
    assert 115 < slow < 140


@pytest.mark.parametrize("seed", range(30))
def test_only_one_of_two_would_be_leaders_acts(seed: int) -> None:
    """Every law is checked at every revision: nothing is bought twice, no sound node is lost."""

    async def story(world: World) -> None:
        for round_ in range(6):
            await world.clock.sleep(97 + 31 * ((seed + round_) % 5))
            if round_ % 2 and (serving := world.serving(TRAINING)):
                world.fail(serving[0], "XID 79")
                await world.clock.sleep(0.05 * (seed % 7))
            terms.append(world.store.term)
            world.leadership.split_brain_takeover()
        await world.clock.sleep(600)
        await world.converge()
        terms.append(world.store.term)

    terms: list[int] = []
    simulate(story, seed=seed, pools=[a_pool(size=4)], habits=STORMY, error_rate=0.2)

    assert terms == sorted(set(terms)), "each of them began a term of its own"


def test_a_superseded_leader_ends_with_its_next_write() -> None:
    async def story(world: World) -> None:
        await world.clock.sleep(900)
        old = world.control
        assert old is not None
        world.leadership.split_brain_takeover()
        await world.clock.sleep(1.0)
        assert world.control is not old
        before = world.leadership.crash_point
        world.fail(world.serving(TRAINING)[0], "XID 79")
        await world.clock.sleep(900)
        assert world.control is not old
        assert world.leadership.crash_point is before, "the one that leads has not died of it"
        assert old.store.term < world.store.term
        assert len(world.serving(TRAINING)) == 3

    simulate(story, seed=1, pools=[a_pool(size=3)], habits=Habits())
