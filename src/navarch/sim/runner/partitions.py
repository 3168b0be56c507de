"""Partitions: agents that cannot be heard though nothing is wrong with them."""

from navarch.core.ids import NodeId
from navarch.sim.kernel.chance import Chance
from navarch.sim.runner.chaos import share_of
from navarch.sim.runner.fleet import Stage
from navarch.sim.scenario.environment import Partition
from navarch.sim.scenario.kinds import TargetScope


def cut_off(stage: Stage, scope: TargetScope, target: str) -> list[NodeId]:
    """Keep the agents of a place from the control plane; return which."""
    nodes = nodes_of(stage, scope, target)
    stage.ground.cut_off.update(nodes)
    for node in nodes:
        if node in stage.agents:
            stage.agents[node].rouse()
    return nodes


def rejoin(stage: Stage, scope: TargetScope, target: str) -> None:
    """Let the agents of a place be heard again."""
    stage.ground.cut_off.difference_update(nodes_of(stage, scope, target))


async def hold(stage: Stage, partition: Partition) -> None:
    """Cut a place off at its moment and for its while."""
    clock = stage.ground.clock
    await clock.sleep(partition.at.total_seconds())
    nodes = cut_off(stage, partition.scope, partition.target)
    await clock.sleep(partition.duration.total_seconds())
    stage.ground.cut_off.difference_update(nodes)


def nodes_of(stage: Stage, scope: TargetScope, target: str) -> list[NodeId]:
    """Return the machines of a place."""
    match scope:
        case TargetScope.NODE:
            return [NodeId(target)]
        case TargetScope.ALL:
            return list(stage.agents)
        case TargetScope.PERCENTAGE:
            return share_of(stage, target, Chance(stage.ground.entropy(f"partition/{target}")))
    return stage.within(scope, target)
