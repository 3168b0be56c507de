"""One seed is one story, on every run."""

import hashlib
import os
import subprocess
import sys

import pytest

from navarch.core.ids import PoolName
from navarch.sim.loop import SimLoop, StuckError
from navarch.sim.world import World, simulate
from navarch.testing.worlds import STORMY, a_pool

TRAINING = PoolName("training")

PROGRAM = "from test_determinism import told; print(told(7))"


def told(seed: int) -> str:
    """Return a digest of everything that happened in a story with every kind of trouble."""

    async def story(world: World) -> None:
        await world.clock.sleep(1200)
        if serving := world.serving(TRAINING):
            world.fail(serving[0], "XID 79")
        world.crash()
        await world.clock.sleep(1200)
        await world.converge()

    pools = [a_pool(size=3), a_pool("inference", size=2)]
    world = simulate(story, seed=seed, pools=pools, habits=STORMY, trouble=0.2)
    return hashlib.sha256("\n".join(world.trace).encode()).hexdigest()


def test_a_seed_gives_the_same_trace_under_any_hash_seed() -> None:
    traces = set()
    for hash_seed in ("0", "1", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            cwd=os.path.dirname(__file__),
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        traces.add(done.stdout.strip().splitlines()[-1])
    assert len(traces) == 1


def test_two_seeds_give_two_stories() -> None:
    assert told(1) != told(2)


def test_code_that_waits_for_nobody_is_named() -> None:
    async def waits_for_ever() -> None:
        await SimLoop.create_future(loop)

    loop = SimLoop()
    with pytest.raises(StuckError, match="waits_for_ever"):
        loop.run_until_complete(waits_for_ever())
    loop.close()


def test_code_that_reaches_for_a_thread_fails_at_once() -> None:
    loop = SimLoop()
    with pytest.raises(RuntimeError, match="asked for a thread"):
        loop.run_in_executor(None, print)
    loop.close()
