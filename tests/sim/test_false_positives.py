"""Replays of published mass false positives: no sound node is cordoned."""

from collections.abc import Sequence

import pytest

from navarch.core.health import CheckResult, Health, History
from navarch.core.ids import NodeId, PoolName
from navarch.core.instance import Gpu, GpuMetrics
from navarch.core.recovery import Remediation
from navarch.health.checks.links import NvlinkCheck
from navarch.health.checks.xid import XidCheck
from navarch.hosts.simulated import SimulatedHost
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuEvent, GpuHealth, NvLink
from navarch.sim.kernel.clock import SeededEntropy
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import NOW, a_pool

TRAINING = PoolName("training")
NODES = 288
PER_RACK = 18


class Gpus:
    """Eight GPUs as the checks see them: with events, and with links that are up or not yet."""

    def __init__(self, events: Sequence[GpuEvent] = (), *, links_up: bool = True) -> None:
        self._events = events
        self._links_up = links_up

    def list_gpus(self) -> Sequence[Gpu]:
        return [Gpu(index=i, uuid=f"GPU-{i}", driver_version="550.90.07") for i in range(8)]

    def metrics(self, gpu: Gpu) -> GpuMetrics:
        del gpu
        return GpuMetrics()

    def health(self, gpu: Gpu) -> GpuHealth:
        del gpu
        # While a fabric trains, some links are up and others are not.
        links = tuple(NvLink(index=i, active=self._links_up or i < 9) for i in range(18))
        return GpuHealth(nvlinks=links)

    def events(self) -> Sequence[GpuEvent]:
        return self._events

    def settle(self, number: int) -> None:
        del number

    def close(self) -> None:
        pass


def seen_by(gpus: Gpus) -> list[CheckResult]:
    """Return the results of the agent's own checks on a machine."""
    view = MachineView(
        now=NOW,
        gpus=gpus,
        host=SimulatedHost(_NoClock(), SeededEntropy("host"), "n"),  # type: ignore[arg-type]
        history=History(),
    )
    return [*XidCheck().run(view), *NvlinkCheck().run(view)]


class _NoClock:
    def monotonic(self) -> float:
        return 0.0


def xid(code: int, text: str = "") -> Gpus:
    event = GpuEvent(number=1, at=NOW, gpu="GPU-0", code=code, text=text)
    return Gpus([event])


def report(world: World, node: NodeId, results: list[CheckResult]) -> None:
    agent = world.agent(node)
    agent.results |= {result.check: result for result in results}
    agent.report_now()


def rack(number: int) -> str:
    return f"rack-{number // PER_RACK}"


TRUE_FAULTS = {
    5: (79, "GPU has fallen off the bus."),
    120: (48, "An uncorrectable double bit error (DBE) has been detected"),
    200: (64, "Row remapper error: all reserved rows for bank are remapped"),
    270: (95, "Uncontained ECC error"),
}
"""Real hardware faults among the false positives, by the number of the node."""


async def filled(world: World) -> list[NodeId]:
    world.hosts.labels_for = lambda node: {"rack": rack(int(node.rpartition("-")[2]))}
    await world.until(lambda: len(world.serving(TRAINING)) == NODES, within_s=3600, step_s=10.0)
    return [node.id for node in world.nodes(TRAINING)]


async def check_outcome(world: World, nodes: list[NodeId], broken: set[NodeId]) -> None:
    """Check that only broken nodes were cordoned, each within ten seconds."""
    began = world.clock.monotonic()
    await world.until(
        lambda: all(world.fleet().nodes[name].retiring for name in broken),
        within_s=10.0,
        step_s=0.5,
    )
    assert world.clock.monotonic() - began <= 10.0
    await world.clock.sleep(300)
    touched = {
        node.id
        for node in world.fleet().nodes.values()
        if node.id in nodes and (node.cordoned or node.retiring or node.held)
    }
    assert touched == broken


@pytest.mark.parametrize("strategy", ["cordon_and_replace", "ladder"])
def test_symptoms_of_killed_programs_on_77_nodes_in_11_racks_cordon_no_node(strategy: str) -> None:
    pool = a_pool(size=NODES, nodes_max=NODES + 20, remediation=Remediation(strategy=strategy))

    async def story(world: World) -> None:
        nodes = await filled(world)
        victims = [name for i, name in enumerate(nodes) if i // PER_RACK < 11][::3][:77]
        assert len({rack(nodes.index(name)) for name in victims}) == 11
        for name in victims:
            text = "pid=4242, name=python, Ch 00000008"
            report(world, name, seen_by(xid(45, text)))
        await world.clock.sleep(300)
        touched = [x.id for x in world.nodes(TRAINING) if x.cordoned or x.retiring or x.held]
        assert touched == []

    simulate(story, seed=1, pools=[pool])


def test_links_down_at_boot_on_214_nodes_cordon_no_node_and_real_faults_are_found() -> None:
    pool = a_pool(size=NODES, nodes_max=NODES + 20)

    async def story(world: World) -> None:
        nodes = await filled(world)
        down = seen_by(Gpus(links_up=False))
        assert {x.health for x in down if x.check == "nvlink"} == {Health.DEGRADED}
        for name in nodes[:214]:
            report(world, name, down)
        for i in range(77):
            report(world, nodes[3 * i], seen_by(xid(45, "pid=1, name=x, Ch 0")))
        await world.clock.sleep(1)
        broken = {nodes[i] for i in TRUE_FAULTS}
        for i, (code, text) in TRUE_FAULTS.items():
            report(world, nodes[i], seen_by(xid(code, text)))
        await check_outcome(world, nodes, broken)
        # The fabric has trained.
        for name in nodes[:214]:
            if name not in broken:
                report(world, name, seen_by(Gpus()))
        await world.converge()

    simulate(story, seed=2, pools=[pool])


def test_a_policy_that_calls_the_symptom_fatal_still_cannot_take_the_fleet_down() -> None:
    """With the published mapping, XID 45 as fatal, only the budgets limit the damage."""
    pool = a_pool(size=NODES, nodes_max=NODES + 20)
    fatal = CheckResult(
        check="xid/45/GPU-0",
        health=Health.UNHEALTHY,
        reason="XID 45",
        fatal=True,
        lasting=True,
        facts={"code": "45", "kind": "xid"},
    )

    async def story(world: World) -> None:
        nodes = await filled(world)
        for name in nodes[:77]:
            report(world, name, [fatal])
        await world.clock.sleep(240)
        fleet = world.fleet()
        acted = [name for name in nodes if fleet.nodes[name].retiring]
        held = [name for name in nodes if fleet.nodes[name].held]
        out = [name for name in acted if not fleet.nodes[name].gone]
        assert len(acted) <= 14 + 4, "a twentieth of the pool"
        assert len(acted) <= 14 or len(out) == 1, "and then one at a time"
        assert len(acted) + len(held) == 77
        assert fleet.pools[TRAINING].held is not None

        # With the mapping corrected, the next reports clear the fault and nothing stays held.
        for name in held:
            world.agent(name).results.pop(fatal.check)
        await world.clock.sleep(1)  # Reports that were sent before arrive.
        for name in held:
            await world.ask(lambda api, name=name: api.declare_healthy(name, reason="bad mapping"))  # type: ignore[misc]
        await world.clock.sleep(60)
        assert not [x.id for x in world.nodes(TRAINING) if x.held]

    simulate(story, seed=3, pools=[pool])
