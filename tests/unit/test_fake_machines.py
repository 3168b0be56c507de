"""Simulated machines start one by one, so that a large number of them does not stop the server."""

import asyncio
from itertools import pairwise
from pathlib import Path

from tests.support.simulated_machines import NOW, a_machine

from navarch.app.fake import FakeMachines
from navarch.app.fake_list import MachineList
from navarch.clock import SystemClock, SystemEntropy
from navarch.config.provider import FakeConfig
from navarch.sim.kernel.clock import InlineOffload

MACHINES = 30


def test_a_restart_starts_its_machines_one_in_each_turn_of_the_loop(tmp_path: Path) -> None:
    directory = tmp_path / "fake"
    MachineList(directory).begin([a_machine(f"i-{n}") for n in range(MACHINES)], NOW)

    def started() -> int:
        return sum(each.is_dir() for each in directory.iterdir())

    async def story() -> None:
        async with asyncio.TaskGroup() as tasks:
            machines = FakeMachines(
                SystemClock(),
                SystemEntropy(),
                tasks,
                FakeConfig(name="fake"),
                directory=directory,
                server="http://127.0.0.1:9",
                token=lambda: None,
                offload=InlineOffload(),
                probe_offload=InlineOffload(),
            )
            assert machines.restore() == MACHINES
            counts = [started()]
            while counts[-1] < MACHINES:
                await asyncio.sleep(0)
                counts.append(started())
            steps = [after - before for before, after in pairwise(counts)]
            assert max(steps) == 1
            assert counts[0] == 0
            for machine in list(machines.cloud.alive()):
                machines.cloud.end(machine.id)

    asyncio.run(asyncio.wait_for(story(), 60))
