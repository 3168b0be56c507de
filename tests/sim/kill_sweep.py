"""Kills a control plane on SQLite with -9 at every statement it writes, and starts it again.

Run as a program, since it forks. Each child runs the whole story in virtual time on a real
database file; when it has been killed, a second child goes on with the file as it was left,
and with the machines of the cloud, which outlive the control plane as real ones would.

usage: kill_sweep.py SCRATCH EVERY
"""

import json
import logging
import os
import pickle
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import structlog

from navarch.core.ids import NodeId, PoolName
from navarch.core.ownership import Cluster
from navarch.ports.store import Store
from navarch.providers.simulated import Habits
from navarch.sim.kernel.clock import InlineOffload, SeededEntropy
from navarch.sim.world.world import World, simulate
from navarch.stores.sqlite import SqliteStore
from navarch.testing.worlds import a_pool

TRAINING = PoolName("training")
POOL = a_pool(size=2, nodes_max=3)
HABITS = Habits(listing_lag_s=30.0, lie=0.1)
WRITES = ("BEGIN", "INSERT", "UPDATE", "DELETE", "COMMIT")


async def a_busy_hour(world: World) -> None:
    await world.until(lambda: len(world.serving(TRAINING)) == 2, within_s=3600)
    world.fail(world.serving(TRAINING)[0], "XID 79: GPU has fallen off the bus")
    await world.clock.sleep(600)
    await world.ask(lambda fleet: fleet.scale(TRAINING, 3, reason="more work"))
    await world.clock.sleep(300)
    await world.ask(lambda fleet: fleet.scale(TRAINING, 2, reason="less work"))
    await world.clock.sleep(200)
    world.silence(NodeId(world.serving(TRAINING)[-1]))
    await world.converge()


async def come_to_rest(world: World) -> None:
    await world.converge()


def first_life(directory: Path, kill_at: int | None) -> int:
    """Run the story; die at write number `kill_at`. Returns how many writes there were."""
    worlds: list[World] = []
    writes = 0

    def traced(statement: str) -> None:
        nonlocal writes
        if not statement.startswith(WRITES):
            return
        writes += 1
        if writes == kill_at:
            (directory / "cloud").write_bytes(pickle.dumps(_cloud_of(worlds)))
            os.kill(os.getpid(), signal.SIGKILL)

    def store(_: Cluster) -> Store:
        opened = SqliteStore.open(directory, InlineOffload(), SeededEntropy("cluster"))
        opened._database.set_trace_callback(traced)
        return opened

    simulate(a_busy_hour, seed=1, pools=[POOL], habits=HABITS, store=store, prepare=worlds.append)
    return writes


def _cloud_of(worlds: list[World]) -> object:
    if not worlds:
        return 0.0, {}, {}
    world = worlds[0]
    return world.clock.monotonic(), world.cloud.machines, world.cloud.tokens


def second_life(directory: Path) -> None:
    """Go on from what the first life has left behind."""
    now_s, machines, tokens = pickle.loads((directory / "cloud").read_bytes())

    def store(_: Cluster) -> Store:
        return SqliteStore.open(directory, InlineOffload(), SeededEntropy("cluster"))

    def prepare(world: World) -> None:
        world.cloud.take_over(machines, tokens)
        for machine in world.cloud.alive():
            world.boot(machine)

    simulate(
        come_to_rest,
        seed=2,
        pools=[POOL],
        habits=HABITS,
        store=store,
        prepare=prepare,
        start_s=now_s + 5.0,
    )


def in_a_child(life: Callable[[], object]) -> int:
    """Run `life` in a process of its own; return its exit status as from `waitpid`."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            life()
            code = 0
        except BaseException:  # noqa: BLE001 - reported, and the exit code tells
            traceback.print_exc()
        os._exit(code)
    return os.waitpid(child, 0)[1]


def main(scratch: Path, every: int) -> int:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    directory = scratch / "untouched"
    writes = first_life(directory, None)
    failed = []
    points = range(1, writes + 1, every)
    for point in points:
        directory = scratch / str(point)
        killed = in_a_child(lambda d=directory, p=point: first_life(d, p))  # type: ignore[misc]
        if not os.WIFSIGNALED(killed) or os.WTERMSIG(killed) != signal.SIGKILL:
            failed.append(f"write {point}: the first life was not killed")
        elif in_a_child(lambda d=directory: second_life(d)) != 0:  # type: ignore[misc]
            failed.append(f"write {point}: the second life failed")
        shutil.rmtree(directory, ignore_errors=True)
    print(json.dumps({"writes": writes, "points": len(points), "failed": failed}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
