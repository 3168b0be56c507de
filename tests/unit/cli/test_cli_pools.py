"""Commands about pools and machines, against a whole control plane."""

import json

from cli_world import a_place

CREATE = (
    "pool create train --provider sim --type h100-8x --region r1 --gpu-type h100 "
    "--price 98.32 --min 1 --max 3 --label team=vision --boot-deadline 20m"
)


def test_a_pool_is_created_once_scaled_and_deleted() -> None:
    with a_place() as place:
        assert place.type("pool list").stdout == "No pools found\n"
        assert place.type(CREATE).stdout == "Pool train created with 1 node\n"
        again = place.type(CREATE)
        assert again.exit_code == 4
        assert "navarch pool scale train NODES" in again.stderr
        assert place.type("pool scale train 2").stdout == "Pool train scaled to 2 nodes\n"
        place.wait(300)
        view = json.loads(place.type("pool get train -o json").stdout)
        assert (view["serving"], view["size"]) == (2, 2)
        assert view["spec"]["labels"] == {"team": "vision"}
        assert view["spec"]["offerings"][0]["price_per_hour"] == "98.32"
        assert "Boot Deadline:   20m" in place.type("pool get train").stdout
        assert place.type("pool delete train").stdout == "Pool train is being deleted\n"
        assert place.type("pool delete train --wait").stdout == "Pool train is gone\n"
        assert place.type("pool get train").exit_code == 3


def test_a_size_outside_the_bounds_is_bad_usage() -> None:
    with a_place() as place:
        place.type(CREATE)
        result = place.type("pool scale train 9")

    assert (result.exit_code, result.stderr) == (
        2,
        "Error: pool train holds 1 to 3 nodes, not 9\n",
    )


def test_a_size_that_cannot_be_is_refused_before_the_server_is_asked() -> None:
    with a_place() as place:
        assert place.type(f"{CREATE} --nodes 9").exit_code == 2
        assert place.type(f"{CREATE} --price cheap").exit_code == 2
        assert place.type(f"{CREATE} --price NaN").exit_code == 2
        assert place.desk.targets == []


def test_down_no_wait_returns_at_once_and_down_again_waits() -> None:
    with a_place() as place:
        place.type("up --gpus 8 --type h100 --name demo --wait")
        assert place.type("down demo --no-wait").stdout == "Pool demo is being deleted\n"
        late = place.type("down demo --timeout 1s")
        assert late.exit_code == 1
        assert "1 machine of demo left after 1s (demo-0)" in late.stderr
        assert place.type("down demo").stdout == "Pool demo is gone\n"
        assert place.type("down demo").exit_code == 3


def test_a_machine_can_be_found_by_its_node() -> None:
    with a_place() as place:
        place.type("up --gpus 8 --type h100 --name demo --wait")
        [listed] = json.loads(place.type("instance list --state running -o json").stdout)
        got = json.loads(place.type("instance get demo-0 -o json").stdout)
        shown = place.type("instance get demo-0").stdout

    assert listed == got
    assert got["state"] == "running"
    assert f"Instance ID:    {got['id']}" in shown


def test_up_without_wait_returns_at_once() -> None:
    with a_place() as place:
        result = place.type("up --gpus 9 --type h100 --name demo")

    assert result.exit_code == 0
    assert "Pool demo: 2 x h100-8x at sim in r1 (8 h100s, $98.32/h), $196.64/h" in result.stdout


def test_gpus_that_nobody_offers_are_bad_usage() -> None:
    with a_place() as place:
        result = place.type("up --gpus 8 --type b300 --name demo")

    assert result.exit_code == 2
    assert "nobody offers 'b300' as asked; there is h100" in result.stderr


def test_a_gang_is_rounded_up_to_whole_machines_and_says_so() -> None:
    with a_place() as place:
        result = place.type("up --gpus 9 --type h100 --name demo --gang 4")
        asked = json.loads(place.type("pool get demo -o json").stdout)

    assert result.exit_code == 0, result.output
    assert "4 x " in result.stdout
    assert "4 together or none" in result.stdout
    assert (asked["spec"]["gang"], asked["size"]) == (4, 4)


def test_a_size_that_is_no_whole_number_of_gangs_is_refused_with_what_can_be_had() -> None:
    with a_place() as place:
        place.type("pool create demo --provider fake --type h100-8x --max 8 --gang 4")
        result = place.type("pool scale demo 5")

    assert result.exit_code != 0
    assert "ask for 4 or 8 nodes, not 5" in result.output
