"""Pools whose machines would get no agent: refused, or held if an older version stored them."""

from dataclasses import replace

import pytest
from cli_world import H100, Place, a_place

from navarch.core.fleet import Change
from navarch.core.ids import NodeId, PoolName, Token
from navarch.core.launch import Launch
from navarch.core.node import Node, Phase
from navarch.core.pool import Pool
from navarch.service.held import HeldService
from navarch.sim.loop import EPOCH

OLD = Pool(name=PoolName("old"), offerings=(H100,), nodes_min=2, nodes_max=4)


def missing(pool: Pool) -> str | None:
    return None if pool.user_data else f"pool {pool.name} buys from sim; add cloud_init: true"


class File:
    """A configuration that holds no pool until it is corrected."""

    corrected = False

    def missing_agent(self, pool: Pool) -> str | None:
        return None if self.corrected else missing(pool)


def bought(place: Place) -> int:
    return len(place.world.cloud.tokens)


@pytest.mark.parametrize(
    "line",
    [
        "up --gpus 16 --type h100 --name training",
        "up --gpus 16 --type h100 --name training --wait",
        "pool create training --provider sim --type h100-8x --max 2 --nodes 2",
    ],
)
def test_the_command_line_refuses_a_pool_without_an_agent_and_buys_nothing(line: str) -> None:
    with a_place(missing_agent=missing) as place:
        refused = place.type(line)
        assert refused.exit_code == 2
        assert refused.output == (
            "Error: user_data: pool training buys from sim; add cloud_init: true\n"
        )
        place.wait(3600)
        assert not place.world.fleet().pools
        assert bought(place) == 0


def test_a_pool_that_was_stored_without_an_agent_buys_nothing_and_says_why() -> None:
    file = File()
    with a_place(missing_agent=file.missing_agent, before=Change(pools=[OLD])) as place:
        place.wait(24 * 3600)
        assert bought(place) == 0
        for line in ("pool get old", "status", "why pool old"):
            assert "no machines are bought: pool old buys from sim" in flat(place, line), line

        held = HeldService(place.world.clock, place.world.store)
        place.runner.run(held.release_held(pool=OLD.name, reason="try again"))
        place.wait(3600)
        assert bought(place) == 0
        assert "no machines are bought" in flat(place, "pool get old")

        file.corrected = True
        place.wait(3600)
        assert len(place.world.serving(OLD.name)) == 2
        assert "no machines are bought" not in flat(place, "pool get old")


def test_a_pool_that_is_deleted_is_not_reported() -> None:
    before = Change(pools=[replace(OLD, deleted=True)])
    with a_place(missing_agent=missing, before=before) as place:
        place.wait(3600)
        assert place.world.fleet().pools[OLD.name].braked is None


def test_machines_that_serve_stay_when_their_pool_loses_the_way_to_start_agents() -> None:
    file = File()
    file.corrected = True
    with a_place(missing_agent=file.missing_agent, before=Change(pools=[OLD])) as place:
        place.wait(3600)
        serving = place.world.serving(OLD.name)
        assert len(serving) == 2
        file.corrected = False
        assert place.type("pool scale old 4").exit_code == 0
        place.wait(3600)
        assert place.world.serving(OLD.name) == serving
        assert bought(place) == 2
        assert "no machines are bought" in flat(place, "pool get old")


def test_a_launch_that_an_older_version_wrote_down_is_not_carried_out() -> None:
    name = NodeId("old-0")
    launch = Launch(token=Token("t-0"), node=name, pool=OLD.name, offering=H100, asked_at=EPOCH)
    node = Node(
        id=name, pool=OLD.name, phase=Phase.REQUESTED, since=EPOCH, created_at=EPOCH, launch=launch
    )
    before = Change(pools=[replace(OLD, nodes_min=1, next_index=1)], nodes=[node])
    file = File()
    with a_place(missing_agent=file.missing_agent, before=before) as place:
        place.wait(3600)
        assert bought(place) == 0
        file.corrected = True
        place.wait(3600)
        assert place.world.serving(OLD.name) == [name]


def flat(place: Place, line: str) -> str:
    """Return what a command says, without the line breaks of its layout."""
    return " ".join(place.type(line).output.split())
