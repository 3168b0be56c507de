"""A listener filtered by topic decides as one that receives every commit."""

from collections.abc import Callable, Collection
from datetime import timedelta
from pathlib import Path

import pytest

from navarch.core.health import CheckResult, Health
from navarch.core.ids import PoolName
from navarch.core.recovery import RecoveryStep
from navarch.core.remediation import Remediation
from navarch.ports.store import Topic
from navarch.sim.runner.runner import run_scenario
from navarch.sim.scenario.loading import load_scenario
from navarch.sim.world.world import World, simulate
from navarch.stores.subscribers import Listener, Subscribers
from navarch.testing.worlds import STORMY, a_pool

LIBRARY = Path(__file__).parents[2] / "scenarios"
SCENARIOS = (
    "autoscaling",
    "control-plane-crash",
    "cordon-drain",
    "failover",
    "pool-replacement",
    "stock-out",
    "zone-partition",
    "incidents/bad-driver-rollout",
    "incidents/spot-storm",
    "stress/quick-test",
)

MENDED = PoolName("mended")
FALLEN = CheckResult(
    check="xid/79/GPU-0",
    health=Health.UNHEALTHY,
    reason="XID 79",
    fatal=True,
    lasting=True,
    action="reboot_node",
    facts={"code": "79", "kind": "xid", "gpu": "GPU-0"},
)


def ignore_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send every commit to every listener, regardless of its topics."""
    join = Subscribers.join

    def join_for_all(
        self: Subscribers, listener: Listener, about: Collection[Topic] | None
    ) -> Callable[[], None]:
        del about
        return join(self, listener, None)

    monkeypatch.setattr(Subscribers, "join", join_for_all)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_has_the_same_trace_without_topic_filters(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = load_scenario(LIBRARY / f"{name}.yaml")
    traces = [run_scenario(scenario, seed=seed).trace for seed in range(3)]
    ignore_topics(monkeypatch)
    assert [run_scenario(scenario, seed=seed).trace for seed in range(3)] == traces


def stormy_story(seed: int) -> list[str]:
    """Return the trace of gangs, repairs and crashes in a bad network."""

    async def story(world: World) -> None:
        await world.clock.sleep(1800)
        if serving := world.serving(MENDED):
            world.break_down(serving[0], FALLEN, cleared_by=RecoveryStep.REBOOT)
        if serving := world.serving(PoolName("gangs")):
            world.fail(serving[0], "XID 79")
        await world.clock.sleep(600)
        world.crash()
        await world.clock.sleep(3600)
        await world.converge()

    pools = [
        a_pool("mended", size=2, nodes_max=3, remediation=Remediation(strategy="ladder")),
        a_pool("gangs", size=4, nodes_max=8, gang=4, gang_hold=timedelta(minutes=10)),
    ]
    return simulate(story, seed=seed, pools=pools, habits=STORMY, error_rate=0.2).trace


@pytest.mark.parametrize("seed", range(10))
def test_a_stormy_story_has_the_same_trace_without_topic_filters(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = stormy_story(seed)
    assert trace
    ignore_topics(monkeypatch)
    assert stormy_story(seed) == trace
