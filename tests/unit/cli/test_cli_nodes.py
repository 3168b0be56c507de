"""Commands on nodes against a running control plane."""

import json

import pytest
from cli_fleet import FleetCli, running_fleet

from navarch.app.control_plane import Plane
from navarch.core.health import CheckResult, Health, HealthReport
from navarch.core.ids import NodeId
from navarch.core.instance import Inventory
from navarch.ports.agents import Registration


def with_two_nodes(fleet: FleetCli) -> None:
    assert fleet.run("up --gpus 16 --type h100 --name demo --wait").exit_code == 0


def test_an_empty_list_is_a_sentence_as_text_and_an_array_as_json() -> None:
    with running_fleet() as fleet:
        assert fleet.run("list").stdout == "No nodes found\n"
        assert fleet.run("list -o json").stdout == "[]\n"
        assert fleet.run("list -o yaml").stdout == "[]\n"


def test_the_node_columns_are_in_the_documented_order() -> None:
    with running_fleet() as fleet:
        with_two_nodes(fleet)
        header = fleet.run("list").stdout.splitlines()[0]

    assert header.startswith(
        "Node ID  Provider  Region  Zone  Instance Type  Status  Health   Last Heartbeat  GPUs"
    )


@pytest.mark.parametrize("word", ["cordoned", "CORDONED", "NODE_STATUS_CORDONED"])
def test_a_status_may_be_short_or_long_in_upper_or_lower_case(word: str) -> None:
    with running_fleet() as fleet:
        with_two_nodes(fleet)
        fleet.run("cordon demo-1")
        found = json.loads(fleet.run(f"list --status {word} -o json").stdout)

    assert [node["id"] for node in found] == ["demo-1"]


def test_status_unknown_filters_nothing() -> None:
    with running_fleet() as fleet:
        with_two_nodes(fleet)
        assert len(json.loads(fleet.run("list --status unknown -o json").stdout)) == 2


def test_an_invalid_status_lists_the_valid_ones() -> None:
    with running_fleet() as fleet:
        result = fleet.run("list --status broken")

    assert result.exit_code == 2
    assert "invalid status: broken (valid: active, cordoned, draining," in result.stderr
    assert fleet.cli.targets == [], "a request was made nevertheless"


def test_filters_and_order_reach_the_server() -> None:
    with running_fleet() as fleet:
        with_two_nodes(fleet)

        def names(line: str) -> list[str]:
            return [node["id"] for node in json.loads(fleet.run(f"{line} -o json").stdout)]

        assert names("list --pool demo --sort -name") == ["demo-1", "demo-0"]
        assert names("list --pool other") == []
        assert names("list --provider sim --region r1 --health healthy") == ["demo-0", "demo-1"]
        assert names("list --label pool=demo") == ["demo-0", "demo-1"]
        assert names("list --label pool=x") == []


def test_json_has_words_for_enums_rfc_3339_for_times_and_strings_for_prices() -> None:
    with running_fleet() as fleet:
        with_two_nodes(fleet)
        node = json.loads(fleet.run("get demo-0 -o json").stdout)["node"]

    assert node["status"] == "active"
    assert node["price_per_hour"] == "98.32"
    assert node["created_at"].startswith("2026-01-01T00:00:0")
    assert node["created_at"].endswith("Z")


def test_cordon_keeps_the_reason_and_uncordon_lifts_it() -> None:
    with running_fleet() as fleet:
        with_two_nodes(fleet)

        assert fleet.run(["cordon", "demo-0", "--reason", "new fans"]).stdout == (
            "Node demo-0 cordoned\n"
        )
        assert "Cordoned:       new fans" in fleet.run("get demo-0").stdout
        assert fleet.run("uncordon demo-0").stdout == "Node demo-0 uncordoned\n"
        again = fleet.run("uncordon demo-0")

    assert again.exit_code == 4
    assert again.stderr == "Error: node demo-0 is not cordoned (current status: active)\n"


def test_uncordon_returns_a_drained_node_to_service() -> None:
    with running_fleet() as fleet:
        with_two_nodes(fleet)
        fleet.run("drain demo-0")
        assert fleet.run("uncordon demo-0").stdout == "Node demo-0 uncordoned\n"
        assert json.loads(fleet.run("get demo-0 -o json").stdout)["node"]["status"] == "active"


def test_uncordon_says_that_a_node_is_still_unhealthy() -> None:
    with running_fleet() as fleet:
        with_two_nodes(fleet)
        fleet.run("cordon demo-0")
        finding = CheckResult(check="gpu", health=Health.UNHEALTHY, reason="97 degrees")
        report = HealthReport(results=(finding,))
        assert fleet.world.control is not None
        fleet.runner.run(fleet.world.control.agents.report_health(NodeId("demo-0"), report))
        assert fleet.run("uncordon demo-0").stdout == (
            "Node demo-0 uncordoned, but unhealthy: see `navarch why demo-0`\n"
        )


def test_drain_terminate_and_override_report_what_they_did() -> None:
    with running_fleet() as fleet:
        with_two_nodes(fleet)
        assert fleet.run("drain demo-0").stdout == "Node demo-0 draining\n"
        assert fleet.run("terminate demo-1").stdout == "Node demo-1 terminating\n"
        assert fleet.run("override demo-0 --reason seen-it").stdout == (
            "Node demo-0 declared healthy\n"
        )
        assert fleet.run("override demo-0").exit_code == 2


def test_a_bad_name_does_not_stop_the_other_nodes() -> None:
    with running_fleet() as fleet:
        with_two_nodes(fleet)
        result = fleet.run("cordon demo-0 nope demo-1")

    assert result.exit_code == 3
    assert result.stdout == "Node demo-0 cordoned\nNode demo-1 cordoned\n"
    assert result.stderr == "Error: node not found: nope\n"


def test_a_node_without_recent_heartbeats_causes_a_warning() -> None:
    with running_fleet() as fleet:
        with_two_nodes(fleet)
        fleet.world.agent(NodeId("demo-0")).hung = True
        fleet.wait(60)
        assert fleet.run("cordon demo-0").stderr == ""
        fleet.wait(75)
        result = fleet.run("uncordon demo-0")

    assert "Warning: node demo-0 last heartbeat was 2m ago (may be offline)" in result.stderr


def test_an_unknown_node_exits_with_code_3() -> None:
    with running_fleet() as fleet:
        result = fleet.run("get nope")

    assert (result.exit_code, result.stderr) == (3, "Error: node not found: nope\n")


def test_ssh_uses_the_public_address_and_passes_the_command() -> None:
    with running_fleet() as fleet:
        with_two_nodes(fleet)
        fleet.run("ssh demo-0")
        fleet.run("ssh demo-0 --user ubuntu -p 2222 --private -- nvidia-smi -L")

    assert fleet.cli.executed == [
        ["ssh", "--", "198.51.0.1"],
        ["ssh", "-l", "ubuntu", "-p", "2222", "--", "10.0.0.1", "nvidia-smi", "-L"],
    ]


def test_ssh_uses_the_address_that_the_agent_of_a_self_registered_node_reports() -> None:
    hosts = {"rack-1": Inventory(internal_ip="10.1.0.1"), "rack-2": Inventory()}
    with running_fleet() as fleet:
        control = fleet.world.control
        assert isinstance(control, Plane)
        for name, inventory in hosts.items():
            host = Registration(node=NodeId(name), boot_id="1", inventory=inventory)
            fleet.runner.run(control.agents.register(host))
        assert fleet.run("ssh rack-1").exit_code == 0
        nowhere = fleet.run("ssh rack-2")

    assert fleet.cli.executed == [["ssh", "--", "10.1.0.1"]]
    assert "its agent reports none" in nowhere.stderr


def test_ssh_to_a_node_without_an_address_explains_why() -> None:
    with running_fleet() as fleet:
        fleet.run("up --gpus 8 --type h100 --name demo")
        fleet.wait(0.05)
        result = fleet.run("ssh demo-0")

    assert result.exit_code == 4
    assert result.stderr == (
        "Error: node demo-0 has no address yet: it is requested. Try again in a minute; "
        "see how far it is: navarch why demo-0\n"
    )
