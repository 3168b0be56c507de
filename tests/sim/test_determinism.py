"""The same seed gives the same trace on every run."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from navarch.core.ids import PoolName
from navarch.sim.kernel.loop import SimLoop, StuckError
from navarch.sim.world.world import World, simulate
from navarch.testing.worlds import STORMY, a_pool

TRAINING = PoolName("training")

PROGRAM = "from test_determinism import trace_digest; print(trace_digest(7))"


def trace_digest(seed: int) -> str:
    """Return a digest of the trace of a story with every kind of trouble."""

    async def story(world: World) -> None:
        await world.clock.sleep(1200)
        if serving := world.serving(TRAINING):
            world.fail(serving[0], "XID 79")
        world.crash()
        await world.clock.sleep(1200)
        await world.converge()

    pools = [a_pool(size=3), a_pool("inference", size=2)]
    world = simulate(story, seed=seed, pools=pools, habits=STORMY, error_rate=0.2)
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


OTHERS = [each for each in os.environ.get("NAVARCH_OTHER_PYTHONS", "").split(":") if each]
SCENARIOS = ("failover", "stress/quick-test", "control-plane-crash", "autoscaling")
PLAY = """
import sys
from navarch.sim.runner.seeds import play_seeds
from pathlib import Path
for path in sys.argv[1:]:
    print(*[result.trace for result in play_seeds(Path(path), range(3))])
"""


@pytest.mark.skipif(not OTHERS, reason="no other Python: make same-trace PYTHONS=python3.13")
def test_a_seed_gives_the_same_trace_with_every_python() -> None:
    folder = Path(__file__).parents[2] / "scenarios"
    paths = [str(folder / f"{name}.yaml") for name in SCENARIOS]
    traces = {
        python: subprocess.run(
            [python, "-c", PLAY, *paths], capture_output=True, text=True, check=True
        ).stdout
        for python in (sys.executable, *OTHERS)
    }
    assert len(traces[sys.executable].split()) == 3 * len(SCENARIOS)
    assert len(set(traces.values())) == 1, traces


def test_two_seeds_give_two_traces() -> None:
    assert trace_digest(1) != trace_digest(2)


def test_the_error_about_a_stuck_loop_names_the_waiting_code() -> None:
    async def waits_for_ever() -> None:
        await SimLoop.create_future(loop)

    loop = SimLoop()
    with pytest.raises(StuckError, match="waits_for_ever"):
        loop.run_until_complete(waits_for_ever())
    loop.close()


def test_code_that_starts_a_thread_fails_at_once() -> None:
    loop = SimLoop()
    with pytest.raises(RuntimeError, match="asked for a thread"):
        loop.run_in_executor(None, print)
    loop.close()
