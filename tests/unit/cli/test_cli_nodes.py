"""Commands about nodes, against a whole control plane."""

import json

import pytest
from cli_world import Place, a_place

from navarch.core.ids import NodeId


def with_two_nodes(place: Place) -> None:
    assert place.type("up --gpus 16 --type h100 --name demo --wait").exit_code == 0


def test_an_empty_list_is_a_sentence_for_people_and_an_array_for_programs() -> None:
    with a_place() as place:
        assert place.type("list").stdout == "No nodes found\n"
        assert place.type("list -o json").stdout == "[]\n"
        assert place.type("list -o yaml").stdout == "[]\n"


def test_the_columns_are_the_references_in_order() -> None:
    with a_place() as place:
        with_two_nodes(place)
        header = place.type("list").stdout.splitlines()[0]

    assert header.startswith(
        "Node ID  Provider  Region  Zone  Instance Type  Status  Health   Last Heartbeat  GPUs"
    )


@pytest.mark.parametrize("word", ["cordoned", "CORDONED", "NODE_STATUS_CORDONED"])
def test_a_status_may_be_short_or_long_in_any_case(word: str) -> None:
    with a_place() as place:
        with_two_nodes(place)
        place.type("cordon demo-1")
        found = json.loads(place.type(f"list --status {word} -o json").stdout)

    assert [node["id"] for node in found] == ["demo-1"]


def test_status_unknown_filters_nothing() -> None:
    with a_place() as place:
        with_two_nodes(place)
        assert len(json.loads(place.type("list --status unknown -o json").stdout)) == 2


def test_a_wrong_status_names_the_right_ones() -> None:
    with a_place() as place:
        result = place.type("list --status broken")

    assert result.exit_code == 2
    assert "invalid status: broken (valid: active, cordoned, draining," in result.stderr
    assert place.desk.targets == [], "the server was asked all the same"


def test_filters_and_order_reach_the_server() -> None:
    with a_place() as place:
        with_two_nodes(place)

        def names(line: str) -> list[str]:
            return [node["id"] for node in json.loads(place.type(f"{line} -o json").stdout)]

        assert names("list --pool demo --sort -name") == ["demo-1", "demo-0"]
        assert names("list --pool other") == []
        assert names("list --provider sim --region r1 --health healthy") == ["demo-0", "demo-1"]
        assert names("list --label pool=demo") == ["demo-0", "demo-1"]
        assert names("list --label pool=x") == []


def test_json_has_words_for_enums_rfc_3339_for_times_and_strings_for_prices() -> None:
    with a_place() as place:
        with_two_nodes(place)
        node = json.loads(place.type("get demo-0 -o json").stdout)["node"]

    assert node["status"] == "active"
    assert node["price_per_hour"] == "98.32"
    assert node["created_at"].startswith("2026-01-01T00:00:0")
    assert node["created_at"].endswith("Z")


def test_cordon_keeps_the_reason_and_uncordon_lifts_it() -> None:
    with a_place() as place:
        with_two_nodes(place)

        assert place.type(["cordon", "demo-0", "--reason", "new fans"]).stdout == (
            "Node demo-0 cordoned\n"
        )
        assert "Cordoned:       new fans" in place.type("get demo-0").stdout
        assert place.type("uncordon demo-0").stdout == "Node demo-0 uncordoned\n"
        again = place.type("uncordon demo-0")

    assert again.exit_code == 4
    assert again.stderr == "Error: node demo-0 is not cordoned (current status: active)\n"


def test_drain_terminate_and_override_say_what_they_did() -> None:
    with a_place() as place:
        with_two_nodes(place)
        assert place.type("drain demo-0").stdout == "Node demo-0 draining\n"
        assert place.type("terminate demo-1").stdout == "Node demo-1 terminating\n"
        assert place.type("override demo-0 --reason seen-it").stdout == (
            "Node demo-0 declared healthy\n"
        )
        assert place.type("override demo-0").exit_code == 2


def test_one_bad_name_does_not_keep_the_others_from_being_done() -> None:
    with a_place() as place:
        with_two_nodes(place)
        result = place.type("cordon demo-0 nope demo-1")

    assert result.exit_code == 3
    assert result.stdout == "Node demo-0 cordoned\nNode demo-1 cordoned\n"
    assert result.stderr == "Error: node not found: nope\n"


def test_a_node_that_is_long_silent_is_warned_about() -> None:
    with a_place() as place:
        with_two_nodes(place)
        place.world.agent(NodeId("demo-0")).hung = True
        place.wait(60)
        assert place.type("cordon demo-0").stderr == ""
        place.wait(75)
        result = place.type("uncordon demo-0")

    assert "Warning: node demo-0 last heartbeat was 2m ago (may be offline)" in result.stderr


def test_a_node_that_does_not_exist_is_exit_code_3() -> None:
    with a_place() as place:
        result = place.type("get nope")

    assert (result.exit_code, result.stderr) == (3, "Error: node not found: nope\n")


def test_ssh_goes_to_the_public_address_and_passes_the_command_on() -> None:
    with a_place() as place:
        with_two_nodes(place)
        place.type("ssh demo-0")
        place.type("ssh demo-0 --user ubuntu -p 2222 --private -- nvidia-smi -L")

    assert place.desk.executed == [
        ["ssh", "--", "198.51.0.1"],
        ["ssh", "-l", "ubuntu", "-p", "2222", "--", "10.0.0.1", "nvidia-smi", "-L"],
    ]


def test_ssh_to_a_node_without_an_address_says_why() -> None:
    with a_place() as place:
        place.type("up --gpus 8 --type h100 --name demo")
        place.wait(0.05)
        result = place.type("ssh demo-0")

    assert result.exit_code == 4
    assert result.stderr == "Error: node demo-0 has no address: it is requested\n"
