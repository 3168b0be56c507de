"""Whether a pool keeps its floor while machines fail in a cloud with every fault.

Four nodes must serve, with two spares, and two of the six fail at once: by a dead GPU, by silence,
or by a reclaim. When their successors serve, the next two fail, three times in all. A failed node
does not count from the time of its failure, whatever its record: the control plane must neither
remove a healthy node meanwhile nor leave a gap open. The cloud loses responses, returns wrong ones,
denies machines, hangs and is sold out at times; in every third storm the control plane is killed in
every wave. There is capacity all the time, though not at every call.
"""

import random
import sys
import time

from navarch.core.ids import NodeId, PoolName
from navarch.ports.store import Committed
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import STORMY, a_pool

NAME = PoolName("training")
FLOOR = 4
SPARES = 2
WAVES = 3
MENDED_WITHIN_S = 4 * 3600
"""Most of it covers pools with new machines that do not come up either."""


def storms(count: int, first: int = 0) -> dict[str, object]:
    """Raise storms from seed `first` on; count those in which fewer than the floor served."""
    began = time.process_time()
    under: list[int] = []
    machines, leaked, crashes = 0, 0, 0
    for seed in range(first, first + count):
        world, lowest = _storm(seed)
        if lowest < FLOOR:
            under.append(seed)
        machines += len(world.cloud.machines)
        crashes += world.leadership.crashes
        known = {node.instance for node in world.fleet().nodes.values() if not node.gone}
        leaked += sum(machine.id not in known for machine in world.cloud.alive())
        if (seed + 1 - first) % 50 == 0:
            print(f"  {seed + 1 - first:,} storms", file=sys.stderr, flush=True)
    return {
        "seeds": f"{first}..{first + count - 1}",
        "storms": count,
        "under_floor": len(under),
        "seeds_under_floor": under,
        "machines_bought": machines,
        "machines_leaked": leaked,
        "control_plane_crashes": crashes,
        "cpu_s": round(time.process_time() - began, 1),
    }


def _storm(seed: int) -> tuple[World, int]:
    chance = random.Random(f"storm/{seed}")
    served: list[int] = [FLOOR + SPARES]
    failed: set[NodeId] = set()

    def watch(committed: Committed) -> None:
        nodes = committed.after.in_pool(NAME).values()
        served.append(sum(node.serving and node.id not in failed for node in nodes))

    async def whole(world: World) -> None:
        def is_whole() -> bool:
            return len(set(world.serving(NAME)) - failed) == FLOOR + SPARES

        await world.until(is_whole, within_s=MENDED_WITHIN_S)

    async def story(world: World) -> None:
        await whole(world)
        leave = world.store.subscribe(watch)
        for _ in range(WAVES):
            for victim in chance.sample(sorted(set(world.serving(NAME)) - failed), SPARES):
                failed.add(victim)
                _break(world, victim, chance)
            if seed % 3 == 0:
                await world.clock.sleep(chance.uniform(0, 120))
                world.crash()
            await whole(world)
        leave()
        await world.converge()

    pool = a_pool(str(NAME), size=FLOOR, nodes_max=FLOOR + SPARES + 3, spares=SPARES)
    world = simulate(story, seed=seed, pools=[pool], habits=STORMY, error_rate=0.1)
    return world, min(served)


def _break(world: World, node: NodeId, chance: random.Random) -> None:
    match chance.choice(("gpu", "silence", "reclaim")):
        case "gpu":
            world.fail(node, "XID 79")
        case "silence":
            world.silence(node)
        case "reclaim":
            world.reclaim(node)
