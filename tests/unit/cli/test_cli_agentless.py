"""Pools that cannot start an agent: refused, or held if an older version stored them."""

import pytest
from cli_fleet import H100, FleetCli, running_fleet

from navarch.core.fleet import Change
from navarch.core.ids import NodeId, PoolName, Token
from navarch.core.launch import Launch
from navarch.core.node import Node, Phase
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.service.fleet_health import HeldService
from navarch.sim.kernel.loop import EPOCH

OLD = Pool(name=PoolName("old"), offerings=(H100,), nodes_min=2, nodes_max=4)


def missing(pool: Pool) -> str | None:
    return None if pool.user_data else f"pool {pool.name} buys from sim; add cloud_init: true"


class File:
    """A configuration that holds no pool until it is corrected."""

    corrected = False

    def missing_agent(self, pool: Pool) -> str | None:
        return None if self.corrected else missing(pool)


def bought(fleet: FleetCli) -> int:
    return len(fleet.world.cloud.tokens)


@pytest.mark.parametrize(
    "line",
    [
        "up --gpus 16 --type h100 --name training",
        "up --gpus 16 --type h100 --name training --wait",
        "pool create training --provider sim --type h100-8x --max 2 --nodes 2",
    ],
)
def test_creating_a_pool_without_an_agent_is_refused_and_launches_nothing(line: str) -> None:
    with running_fleet(missing_agent=missing) as fleet:
        refused = fleet.run(line)
        assert refused.exit_code == 2
        assert refused.output == ("Error: pool training buys from sim; add cloud_init: true\n")
        fleet.wait(3600)
        assert not fleet.world.fleet().pools
        assert bought(fleet) == 0


def test_a_stored_pool_without_an_agent_launches_nothing_and_shows_why() -> None:
    file = File()
    with running_fleet(missing_agent=file.missing_agent, before=Change(pools=[OLD])) as fleet:
        fleet.wait(24 * 3600)
        assert bought(fleet) == 0
        for line in ("pool get old", "status", "why pool old"):
            assert "no machines are bought: pool old buys from sim" in flat(fleet, line), line

        held = HeldService(fleet.world.clock, fleet.world.store)
        fleet.runner.run(held.release_held(pool=OLD.name, reason="try again"))
        fleet.wait(3600)
        assert bought(fleet) == 0
        assert "no machines are bought" in flat(fleet, "pool get old")

        file.corrected = True
        fleet.wait(3600)
        assert len(fleet.world.serving(OLD.name)) == 2
        assert "no machines are bought" not in flat(fleet, "pool get old")


def test_a_pool_being_deleted_is_not_reported() -> None:
    before = Change(pools=[evolve(OLD, deleted=True)])
    with running_fleet(missing_agent=missing, before=before) as fleet:
        fleet.wait(3600)
        assert fleet.world.fleet().pools[OLD.name].braked is None


def test_ready_machines_stay_when_their_pool_can_no_longer_start_agents() -> None:
    file = File()
    file.corrected = True
    with running_fleet(missing_agent=file.missing_agent, before=Change(pools=[OLD])) as fleet:
        fleet.wait(3600)
        serving = fleet.world.serving(OLD.name)
        assert len(serving) == 2
        file.corrected = False
        assert fleet.run("pool scale old 4").exit_code == 0
        fleet.wait(3600)
        assert fleet.world.serving(OLD.name) == serving
        assert bought(fleet) == 2
        assert "no machines are bought" in flat(fleet, "pool get old")


def test_a_launch_recorded_by_an_older_version_is_not_carried_out() -> None:
    name = NodeId("old-0")
    launch = Launch(token=Token("t-0"), node=name, pool=OLD.name, offering=H100, asked_at=EPOCH)
    node = Node(
        id=name, pool=OLD.name, phase=Phase.REQUESTED, since=EPOCH, created_at=EPOCH, launch=launch
    )
    before = Change(pools=[evolve(OLD, nodes_min=1, next_index=1)], nodes=[node])
    file = File()
    with running_fleet(missing_agent=file.missing_agent, before=before) as fleet:
        fleet.wait(3600)
        assert bought(fleet) == 0
        file.corrected = True
        fleet.wait(3600)
        assert fleet.world.serving(OLD.name) == [name]


def flat(fleet: FleetCli, line: str) -> str:
    """Return the output of a command without line breaks."""
    return " ".join(fleet.run(line).output.split())
