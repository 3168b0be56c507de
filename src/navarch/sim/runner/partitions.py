"""Partitions: sound machines that cannot reach the control plane."""

from navarch.core.ids import NodeId
from navarch.sim.kernel.chance import Chance
from navarch.sim.runner.chaos import share_of
from navarch.sim.runner.fleet import SimulatedFleet
from navarch.sim.scenario.environment import Partition
from navarch.sim.scenario.kinds import TargetScope


def partition_nodes(fleet: SimulatedFleet, scope: TargetScope, target: str) -> list[NodeId]:
    """Disconnect the agents of a place from the control plane; return their nodes."""
    nodes = nodes_in(fleet, scope, target)
    fleet.environment.partitioned.update(nodes)
    for node in nodes:
        if node in fleet.agents:
            fleet.agents[node].wake()
    return nodes


def rejoin_nodes(fleet: SimulatedFleet, scope: TargetScope, target: str) -> None:
    """Reconnect the agents of a place."""
    fleet.environment.partitioned.difference_update(nodes_in(fleet, scope, target))


async def hold(fleet: SimulatedFleet, partition: Partition) -> None:
    """Disconnect a place at its time and for its duration."""
    clock = fleet.environment.clock
    await clock.sleep(partition.at.total_seconds())
    nodes = partition_nodes(fleet, partition.scope, partition.target)
    await clock.sleep(partition.duration.total_seconds())
    fleet.environment.partitioned.difference_update(nodes)


def nodes_in(fleet: SimulatedFleet, scope: TargetScope, target: str) -> list[NodeId]:
    """Return the machines of a place."""
    match scope:
        case TargetScope.NODE:
            return [NodeId(target)]
        case TargetScope.ALL:
            return list(fleet.agents)
        case TargetScope.PERCENTAGE:
            return share_of(fleet, target, Chance(fleet.environment.entropy(f"partition/{target}")))
    return fleet.within(scope, target)
