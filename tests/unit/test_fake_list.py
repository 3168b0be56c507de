"""The list of simulated machines outlives a kill of the process, at whatever moment."""

from datetime import timedelta
from pathlib import Path

import msgspec
from tests.support.simulated_machines import NOW, a_machine

from navarch.app.fake_list import KEPT, MachineList


def listed(machines: MachineList) -> list[tuple[str, bool]]:
    return [(each.request.name, each.alive) for each in machines.read()]


def test_the_last_state_of_each_machine_is_listed(tmp_path: Path) -> None:
    machines = MachineList(tmp_path)
    machines.begin([a_machine("i-1")], NOW)
    machines.note(a_machine("i-2"))
    machines.note(a_machine("i-1", ended_at=NOW))
    assert listed(MachineList(tmp_path)) == [("i-1", False), ("i-2", True)]


def test_a_line_that_is_cut_off_costs_no_other(tmp_path: Path) -> None:
    machines = MachineList(tmp_path)
    machines.begin([], NOW)
    machines.note(a_machine("i-1"))
    file = tmp_path / "machines.jsonl"
    before = file.read_bytes()
    machines.note(a_machine("i-2"))
    whole = file.read_bytes()
    for end in range(len(before), len(whole)):
        file.write_bytes(whole[:end])
        assert listed(machines) == [("i-1", True)]
        machines.note(a_machine("i-3"))
        assert listed(machines) == [("i-1", True), ("i-3", True)]


def test_a_change_costs_the_same_however_many_machines_there_are(tmp_path: Path) -> None:
    machines = MachineList(tmp_path)
    machines.begin([a_machine(f"i-{number}") for number in range(1000)], NOW)
    size = (tmp_path / "machines.jsonl").stat().st_size
    machines.note(a_machine("i-7", ended_at=NOW))
    assert (tmp_path / "machines.jsonl").stat().st_size - size < 2 * size / 1000


def test_a_machine_that_ended_long_ago_is_dropped_at_the_next_start(tmp_path: Path) -> None:
    machines = MachineList(tmp_path)
    machines.begin([a_machine("i-1", ended_at=NOW), a_machine("i-2")], NOW)
    machines.begin(machines.read(), NOW + KEPT - timedelta(seconds=1))
    assert len(machines.read()) == 2
    machines.begin(machines.read(), NOW + KEPT)
    assert [each.id for each in machines.read()] == ["i-2"]


def test_the_list_of_the_version_before_is_taken_over(tmp_path: Path) -> None:
    earlier = tmp_path / "machines.json"
    earlier.write_bytes(msgspec.json.encode([a_machine("i-1")]))
    machines = MachineList(tmp_path)
    assert listed(machines) == [("i-1", True)]
    machines.begin(machines.read(), NOW)
    assert listed(machines) == [("i-1", True)]
    assert not earlier.exists()
