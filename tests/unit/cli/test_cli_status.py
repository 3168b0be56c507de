"""`navarch status` shows everything that needs attention, and nothing else."""

import json

from cli_fleet import FleetCli, running_fleet

from navarch.core.health import CheckResult, Health
from navarch.core.ids import NodeId
from navarch.providers.simulated import ApiFailure, Habits

COMPLETE = "Every pool is complete."


def fleet_of_two(fleet: FleetCli) -> None:
    fleet.run("up --gpus 16 --type h100 --name training")
    fleet.wait(300)
    assert COMPLETE in fleet.run("status").output


def report(fleet: FleetCli, health: Health) -> None:
    fleet.world.agent(NodeId("training-0")).results["gpu"] = CheckResult(
        check="gpu", health=health, reason="GPU 0 has page retirements"
    )
    fleet.wait(150)


def test_a_degraded_node_is_counted_and_no_pool_is_called_complete_without_it() -> None:
    with running_fleet() as fleet:
        fleet_of_two(fleet)
        report(fleet, Health.DEGRADED)
        shown = fleet.run("status").output
        assert "1 node is degraded (navarch list --health degraded)." in shown
        assert COMPLETE not in shown
        status = json.loads(fleet.run("status -o json").output)
        assert status["nodes_by_health"] == {"degraded": 1, "healthy": 1}
        assert status["pools"][0]["degraded"] == 1


def test_open_incidents_are_listed_until_they_close() -> None:
    with running_fleet() as fleet:
        fleet_of_two(fleet)
        report(fleet, Health.DEGRADED)
        shown = fleet.run("status").output
        assert "1 incident is open." in shown
        table = shown.partition("Open incidents:\n")[2]
        assert "training-0" in table
        status = json.loads(fleet.run("status -o json").output)
        assert status["open_incidents"] == 1
        assert [each["node"] for each in status["incidents"]] == ["training-0"]
        report(fleet, Health.HEALTHY)
        fleet.wait(600)
        shown = fleet.run("status").output
        assert COMPLETE in shown
        assert "Open incidents" not in shown


def test_a_paused_pool_is_shown_with_the_reason_and_the_remedy() -> None:
    with running_fleet(habits=Habits(boot_s=(60, 90), dead_on_arrival=1.0)) as fleet:
        fleet.run("up --gpus 8 --type h100 --name training")
        fleet.wait(3 * 3600)
        shown = fleet.run("status").output
        assert "training is paused: " in shown
        assert "machines in a row did not come up" in shown
        assert "navarch held release --pool training" in shown
        assert "training is missing 1 of 1 node" in shown
        [pool] = json.loads(fleet.run("status -o json").output)["pools"]
        assert pool["paused"] == pool["note"]


def test_a_controller_that_fails_is_shown_until_it_works_again() -> None:
    with running_fleet() as fleet:
        fleet_of_two(fleet)
        cloud = fleet.world.cloud
        sound, cloud.habits = cloud.habits, Habits(outages={"": ApiFailure.FAIL})
        fleet.wait(600)
        shown = fleet.run("status").output
        assert "Controller observation/sim failed " in shown
        assert " times in a row, first 9m ago: " in shown
        assert COMPLETE not in shown
        failing = json.loads(fleet.run("status -o json").output)["failing"]
        assert {each["name"]: each["times"] > 3 for each in failing}["observation/sim"]
        cloud.habits = sound
        fleet.wait(120)
        assert COMPLETE in fleet.run("status").output
