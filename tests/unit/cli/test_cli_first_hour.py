"""A new user's first hour, typed command by command against a whole control plane."""

import json

from cli_world import a_place

from navarch.app.control_plane import Opinions
from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.fleet.disruption.unhealthy import CordonAndReplace
from navarch.ports.remediator import Treatment
from navarch.providers.simulated import Habits

UP = "up --gpus 16 --type h100 --name demo --wait"


def test_a_broken_gpu_is_replaced_and_why_tells_the_story() -> None:
    with a_place() as place:
        up = place.type(UP)
        assert up.exit_code == 0, up.output
        assert "Pool demo is up: 2 nodes, 16 GPUs, $196.64/h" in up.stdout
        assert "demo-0 is active" in up.stderr

        told = place.type("sim inject demo-0 --xid 79")
        assert told.exit_code == 0, told.output
        place.wait(600)

        names = [node["id"] for node in json.loads(place.type("list -o json").stdout)]
        assert names == ["demo-1", "demo-2"]
        story = place.type("why demo-0").stdout
        assert story.startswith("node demo-0 is gone")
        assert "XID 79 on GPU 0: the GPU has fallen off the bus" in story
        assert "demo-0" in place.type("why node demo-2").stdout
        assert place.type("status").exit_code == 0

        down = place.type("down demo")
        assert down.exit_code == 0, down.output
        assert down.stdout == "Pool demo is gone\n"
        assert place.world.cloud.alive() == []


def test_up_says_why_it_could_not_come_up_in_time() -> None:
    with a_place(habits=Habits(sold_out=1.0)) as place:
        up = place.type(f"{UP} --timeout 3m")

    assert up.exit_code == 1
    assert "demo has 0 of 2 nodes after 3m: 2 refused by every provider so far" in up.stderr
    assert up.stdout == ""


def test_up_again_adjusts_the_pool_and_never_reuses_a_name() -> None:
    with a_place() as place:
        place.type(UP)
        place.type("up --gpus 8 --type h100 --name demo --wait")
        place.wait(600)
        again = place.type([*UP.split(), "-o", "json"])
        names = [node["id"] for node in json.loads(place.type("list -o json").stdout)]

    assert json.loads(again.stdout)["serving"] == 2
    assert "demo-2" in names


class Rackless:
    """A remediator that fails until its operator has mended something."""

    def __init__(self) -> None:
        self.mended = False

    def remediate(self, pool: Pool, node: Node) -> Treatment | None:
        if not self.mended:
            raise LookupError(f"no rack for {node.id}")
        return CordonAndReplace().remediate(pool, node)


def test_a_remediator_that_fails_is_seen_in_status_and_why_until_it_works() -> None:
    ours = Rackless()
    said = "remediator Rackless failed: LookupError: no rack for demo-0"
    with a_place(opinions=Opinions(remediator=ours)) as place:
        place.type(UP)
        place.type("sim inject demo-0 --xid 79")
        place.wait(60)

        status = place.type("status")
        assert (status.exit_code, said in status.stdout) == (0, True), status.output
        (pool,) = json.loads(place.type("status -o json").stdout)["pools"]
        assert said in pool["note"]
        for words in ("why pool demo", "why node demo-0", "get demo-0", "pool get demo"):
            told = " ".join(place.type(words).stdout.split())
            assert said in told, words
        assert "held back" in place.type("list").stdout

        ours.mended = True
        place.wait(600)
        assert "failed" not in place.type("pool list").stdout
        (pool,) = json.loads(place.type("status -o json").stdout)["pools"]
        assert "failed" not in pool["note"]
        names = [node["id"] for node in json.loads(place.type("list -o json").stdout)]
        assert names == ["demo-1", "demo-2"]
