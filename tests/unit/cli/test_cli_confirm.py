"""Commands that terminate machines ask on a terminal, and show what they terminate."""

from dataclasses import replace
from decimal import Decimal

import pytest
from cli_fleet import FleetCli, running_fleet
from click.testing import Result

from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.ids import NodeId
from navarch.core.node import Phase
from navarch.core.records import evolve
from navarch.sim.kernel.loop import EPOCH
from navarch.testing.worlds import a_node

HOST = evolve(a_node("rack-7"), pool=None, launch=None)
LINE = "demo-0: h100-8x at sim in r1, active, healthy"
SUM = "This drains and terminates 2 nodes with 16 GPUs, $196.64/h."


def typed(fleet: FleetCli, line: str, answer: str) -> Result:
    """Run a command on a terminal, with `answer` typed at its question."""
    fleet.cli.environment = replace(fleet.cli.environment, is_interactive=lambda: True)
    return fleet.cli.run(line, stdin=answer)


def phases(fleet: FleetCli) -> dict[str, Phase]:
    return {name: node.phase for name, node in fleet.world.store.fleet().nodes.items()}


@pytest.mark.parametrize("line", ["down demo", "pool delete demo", "terminate demo-0 demo-1"])
@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
def test_nothing_is_terminated_without_a_yes(line: str, answer: str) -> None:
    with running_fleet() as fleet:
        fleet.run("up --gpus 16 --type h100 --name demo --wait")
        refused = typed(fleet, line, answer)
        assert refused.exit_code == 130
        assert LINE in refused.stderr
        assert SUM in refused.stderr
        assert set(phases(fleet).values()) == {Phase.READY}


@pytest.mark.parametrize("line", ["down demo", "pool delete demo --wait"])
@pytest.mark.parametrize(("flag", "answer"), [("", "y\n"), (" -y", ""), (" --yes", "")])
def test_a_pool_is_deleted_after_a_yes(line: str, flag: str, answer: str) -> None:
    with running_fleet() as fleet:
        fleet.run("up --gpus 16 --type h100 --name demo --wait")
        done = typed(fleet, line + flag, answer)
        assert done.exit_code == 0, done.stderr
        assert ("Delete pool demo?" in done.stderr) is not bool(flag)
        assert done.stdout.endswith("Pool demo is gone\n")


def test_only_the_named_nodes_are_terminated_after_a_yes() -> None:
    with running_fleet() as fleet:
        fleet.run("up --gpus 16 --type h100 --name demo --wait")
        done = typed(fleet, "terminate demo-1 nope", "y\n")
        assert "Terminate 1 node?" in done.stderr
        assert "demo-0" not in done.stderr
        assert "node not found: nope" in done.stderr
        assert done.stdout.endswith("Node demo-1 terminating\n")
        assert fleet.world.store.fleet().nodes[NodeId("demo-0")].retiring is None


def test_a_command_that_terminates_nothing_new_does_not_ask() -> None:
    with running_fleet() as fleet:
        fleet.run("up --gpus 8 --type h100 --name demo --wait")
        fleet.run("down demo --no-wait")
        again = typed(fleet, "down demo", "")
        assert again.stderr.count("?") == 0
        assert again.stdout == "Pool demo is gone\n"


def test_a_script_is_not_asked() -> None:
    with running_fleet() as fleet:
        fleet.run("up --gpus 8 --type h100 --name demo --wait")
        assert fleet.run("down demo").stdout == "Pool demo is gone\n"


def test_a_machine_without_a_known_price_is_named() -> None:
    with running_fleet() as fleet:
        fleet.run("up --gpus 16 --type h100 --name demo --wait")
        store = fleet.world.store
        node = store.fleet().nodes[NodeId("demo-0")]
        assert node.launch is not None
        free = evolve(node, launch=evolve(node.launch, price_per_hour=Decimal(0)))
        event = Event(at=EPOCH, about=about("node", node.id), kind="node.test", reason="for a test")
        change = Change(nodes=[free], events=[event])
        fleet.runner.run(store.commit(change, based_on=store.fleet().revision))
        refused = typed(fleet, "down demo", "n\n")

    total = "2 nodes with 16 GPUs, $98.32/h, and 1 machine at an unknown price."
    assert f"This drains and terminates {total}" in refused.stderr


def test_a_self_registered_node_is_refused_without_a_question() -> None:
    with running_fleet(before=Change(nodes=[HOST])) as fleet:
        refused = typed(fleet, "terminate rack-7", "y\n")
        assert "This drains" not in refused.stderr
        assert "node rack-7 was not bought by Navarch" in refused.stderr
        assert refused.exit_code == 4
