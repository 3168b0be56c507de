"""A new user's first hour: a sequence of commands against a running control plane."""

import json

from cli_fleet import running_fleet

from navarch.app.control_plane import Opinions
from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.fleet.disruption.unhealthy import CordonAndReplace
from navarch.ports.remediator import Treatment
from navarch.providers.simulated import Habits

UP = "up --gpus 16 --type h100 --name demo --wait"


def test_a_node_with_a_broken_gpu_is_replaced_and_why_explains_it() -> None:
    with running_fleet() as fleet:
        up = fleet.run(UP)
        assert up.exit_code == 0, up.output
        assert "Pool demo is up: 2 nodes, 16 GPUs, $196.64/h" in up.stdout
        assert "demo-0 is active" in up.stderr

        injected = fleet.run("sim inject demo-0 --xid 79")
        assert injected.exit_code == 0, injected.output
        fleet.wait(600)

        names = [node["id"] for node in json.loads(fleet.run("list -o json").stdout)]
        assert names == ["demo-1", "demo-2"]
        story = fleet.run("why demo-0").stdout
        assert story.startswith("node demo-0 is gone")
        assert "XID 79 on GPU 0: the GPU has fallen off the bus" in story
        assert "demo-0" in fleet.run("why node demo-2").stdout
        assert fleet.run("status").exit_code == 0

        down = fleet.run("down demo")
        assert down.exit_code == 0, down.output
        assert down.stdout == "Pool demo is gone\n"
        assert fleet.world.cloud.alive() == []


def test_up_explains_why_the_pool_is_not_ready_in_time() -> None:
    with running_fleet(habits=Habits(sold_out=1.0)) as fleet:
        up = fleet.run(f"{UP} --timeout 3m")
        pool, node = fleet.run("why demo").stdout, fleet.run("why demo-0").stdout
        status = fleet.run("status").stdout

    assert up.exit_code == 1
    assert "demo has 0 of 2 nodes after 3m: 2 refused by every provider so far" in up.stderr
    assert up.stdout == ""
    reason = "h100-8x at sim in r1: "
    for shown in (up.stderr, pool, node, status):
        assert reason in shown, shown
    assert "launches refused so far: " in node.splitlines()[0]


def test_repeating_up_resizes_the_pool_and_never_reuses_a_node_name() -> None:
    with running_fleet() as fleet:
        fleet.run(UP)
        fleet.run("up --gpus 8 --type h100 --name demo --wait")
        fleet.wait(600)
        again = fleet.run([*UP.split(), "-o", "json"])
        names = [node["id"] for node in json.loads(fleet.run("list -o json").stdout)]

    assert json.loads(again.stdout)["serving"] == 2
    assert "demo-2" in names


class Rackless:
    """A remediator that fails until it is fixed."""

    def __init__(self) -> None:
        self.mended = False

    def remediate(self, pool: Pool, node: Node) -> Treatment | None:
        if not self.mended:
            raise LookupError(f"no rack for {node.id}")
        return CordonAndReplace().remediate(pool, node)


def test_status_and_why_show_a_failing_remediator_until_it_works() -> None:
    ours = Rackless()
    failure = "remediator Rackless failed: LookupError: no rack for demo-0"
    with running_fleet(opinions=Opinions(remediator=ours)) as fleet:
        fleet.run(UP)
        fleet.run("sim inject demo-0 --xid 79")
        fleet.wait(60)

        status = fleet.run("status")
        assert (status.exit_code, failure in status.stdout) == (0, True), status.output
        (pool,) = json.loads(fleet.run("status -o json").stdout)["pools"]
        assert failure in pool["note"]
        for words in ("why pool demo", "why node demo-0", "get demo-0", "pool get demo"):
            output = " ".join(fleet.run(words).stdout.split())
            assert failure in output, words
        assert "held back" in fleet.run("list").stdout

        ours.mended = True
        fleet.wait(600)
        assert "failed" not in fleet.run("pool list").stdout
        (pool,) = json.loads(fleet.run("status -o json").stdout)["pools"]
        assert "failed" not in pool["note"]
        names = [node["id"] for node in json.loads(fleet.run("list -o json").stdout)]
        assert names == ["demo-1", "demo-2"]
