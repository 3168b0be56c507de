"""An agent that records how late its loop is, in the file of the first argument."""

import asyncio
import sys
import time
from pathlib import Path

from navarch.agent.agent import Agent
from navarch.cli.agent import agent

PERIOD_S = 0.01


def main() -> None:
    file = Path(sys.argv.pop(1))
    run = Agent.run

    async def run_and_watch(self: Agent) -> None:
        watch = asyncio.get_running_loop().create_task(_watch(file))
        try:
            await run(self)
        finally:
            watch.cancel()

    Agent.run = run_and_watch  # type: ignore[method-assign]
    agent()


async def _watch(file: Path) -> None:
    # Opened once: to open a file a hundred times a second would make us late by ourselves.
    with file.open("a", buffering=1) as handle:
        while True:
            wanted = time.monotonic() + PERIOD_S
            await asyncio.sleep(PERIOD_S)
            late_ms = (time.monotonic() - wanted) * 1000
            handle.write(f"{late_ms:.3f}\n")


if __name__ == "__main__":
    main()
