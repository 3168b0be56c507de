"""Whether every machine that was ever bought is known to the end, by the cloud's own books.

Worlds of a few hundred launches each, in which nothing may be relied upon: the cloud loses
answers, lies, hangs, denies machines that it has started and lists late; every other one
forgets tokens; the control plane is killed in the middle. Pools grow and are given up again
before their machines have booted, or soon after. At the end nothing is wanted any more, so
that every machine that still runs has leaked.
"""

import gc
import random
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from navarch.core.ids import PoolName
from navarch.core.launch import Launch
from navarch.core.records import evolve
from navarch.ports.api import PoolView
from navarch.ports.store import Committed
from navarch.service.fleet import FleetService
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import H100, a_pool, storm

ZONES = tuple(evolve(H100, zone=f"zone-{i:02}") for i in range(24))
NAME = PoolName("churn")
HOUR = timedelta(hours=1)


@dataclass(slots=True)
class Books:
    """The bill of the cloud and our ledger, for the same machines."""

    worlds: int = 0
    launches: int = 0
    """Attempts, each written down under a token of its own."""
    machines: int = 0
    denied: int = 0
    """Machines that the cloud started and denied."""
    crashes: int = 0
    running_unknown: int = 0
    """Machines that still run at the end and that no node owns."""
    machine_time: timedelta = timedelta(0)
    unaccounted: timedelta = timedelta(0)
    """Time that a machine ran, and that no row of ours has; or the other way round."""
    denied_max: timedelta = timedelta(0)
    """The longest that a denied machine ran before it was found and ended."""

    def add(self, other: "Books") -> None:
        """Add the books of another world."""
        for name in self.__slots__:
            if name != "denied_max":
                setattr(self, name, getattr(self, name) + getattr(other, name))
        self.denied_max = max(self.denied_max, other.denied_max)


def leaks(launches: int, first: int) -> dict[str, object]:
    """Run simulations from seed `first` on until enough launches were made."""
    total = Books()
    began, seed = time.process_time(), first
    gc.disable()  # Worlds are short, and are thrown away whole.
    while total.launches < launches:
        total.add(_world(seed))
        gc.collect()
        seed += 1
        if total.worlds % 20 == 0:
            print(f"  {total.launches:,} launches", file=sys.stderr, flush=True)
    return {
        "seeds": f"{first}..{seed - 1}",
        "worlds": total.worlds,
        "launches": total.launches,
        "machines_bought": total.machines,
        "machines_denied": total.denied,
        "control_plane_crashes": total.crashes,
        "machine_hours": round(total.machine_time / HOUR, 1),
        "machines_leaked": total.running_unknown,
        "machine_hours_unaccounted_for": total.unaccounted / HOUR,
        "longest_denied_machine_minutes": round(total.denied_max / timedelta(minutes=1), 1),
        "cpu_s": round(time.process_time() - began, 1),
    }


def _world(seed: int) -> Books:
    chance = random.Random(f"leaks/{seed}")
    books = Books(worlds=1)
    rows: list[Launch] = []

    def watch(committed: Committed) -> None:
        for node in committed.change.nodes:
            before = committed.before.nodes.get(node.id)
            known = before.launch.token if before is not None and before.launch else None
            books.launches += node.launch is not None and node.launch.token != known

    async def story(world: World) -> None:
        world.store.subscribe(watch)
        for _ in range(chance.randint(6, 12)):
            await world.ask(_scale(chance.randint(20, 60)))
            boots = chance.random() < 0.3
            await world.clock.sleep(chance.uniform(60, 240) if boots else chance.uniform(2, 60))
            if chance.random() < 0.25:
                world.crash()
            await world.ask(_scale(0))
            await world.clock.sleep(chance.uniform(2, 60))
        await world.converge()
        rows.extend(await world.store.launches())
        _close(world, rows, books)

    pool = a_pool(str(NAME), size=0, nodes_max=60, offerings=ZONES)
    # Half of the clouds soon stop listing what has ended, so that its end must be concluded.
    listed_after_end = timedelta(minutes=10) if seed % 4 < 2 else timedelta(hours=6)
    habits = replace(storm(seed), listed_after_end=listed_after_end)
    if seed % 3:
        # Answers that come together cost us less to wait for; a third come as they please.
        habits = replace(habits, call_s=(1.0, 1.0))
    world = simulate(story, seed=seed, pools=[pool], habits=habits, error_rate=0.1)
    books.crashes = world.leadership.crashes
    return books


def _scale(nodes: int) -> Callable[[FleetService], Awaitable[PoolView]]:
    async def request(fleet: FleetService) -> PoolView:
        return await fleet.scale(NAME, nodes, reason="the story")

    return request


def _close(world: World, rows: list[Launch], books: Books) -> None:
    now = world.clock.now()
    ours = {row.instance: row for row in rows if row.instance is not None}
    ours |= {x.instance: x.launch for x in world.nodes(NAME) if x.instance and x.launch}
    for machine in world.cloud.machines.values():
        ran = (machine.ended_at or now) - machine.launched_at
        row = ours.pop(machine.id, None)
        books.machines += 1
        books.machine_time += ran
        books.running_unknown += machine.alive
        noted = _noted(row, world)
        books.unaccounted += abs(ran - noted)
        if machine.denied:
            books.denied += 1
            books.denied_max = max(books.denied_max, ran)
    # The rest are machines that exist only in our ledger.
    books.unaccounted += sum((_noted(row, world) for row in ours.values()), timedelta(0))


def _noted(row: Launch | None, world: World) -> timedelta:
    if row is None or row.launched_at is None:
        return timedelta(0)
    return (row.ended_at or world.clock.now()) - row.launched_at
