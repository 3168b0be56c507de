"""Commands on pools and machines against a running control plane."""

import json
from pathlib import Path

from cli_fleet import running_fleet

CREATE = (
    "pool create train --provider sim --type h100-8x --region r1 --gpu-type h100 "
    "--price 98.32 --min 1 --max 3 --label team=vision --boot-deadline 20m"
)


def test_a_pool_is_created_once_then_scaled_and_deleted() -> None:
    with running_fleet() as fleet:
        assert fleet.run("pool list").stdout == "No pools found\n"
        assert fleet.run(CREATE).stdout == "Pool train created with 1 node\n"
        again = fleet.run(CREATE)
        assert again.exit_code == 4
        assert "navarch pool scale train NODES" in again.stderr
        assert fleet.run("pool scale train 2").stdout == "Pool train scaled to 2 nodes\n"
        fleet.wait(300)
        view = json.loads(fleet.run("pool get train -o json").stdout)
        assert (view["serving"], view["size"]) == (2, 2)
        assert view["spec"]["labels"] == {"team": "vision"}
        assert view["spec"]["offerings"][0]["price_per_hour"] == "98.32"
        assert "Boot Deadline:   20m" in fleet.run("pool get train").stdout
        assert fleet.run("pool delete train").stdout == "Pool train is being deleted\n"
        assert fleet.run("pool delete train --wait").stdout == "Pool train is gone\n"
        assert fleet.run("pool get train").exit_code == 3


def test_a_size_outside_the_bounds_is_bad_usage() -> None:
    with running_fleet() as fleet:
        fleet.run(CREATE)
        result = fleet.run("pool scale train 9")

    assert (result.exit_code, result.stderr) == (
        2,
        "Error: pool train holds 1 to 3 nodes, not 9\n",
    )


def test_an_invalid_size_is_refused_before_any_request() -> None:
    with running_fleet() as fleet:
        assert fleet.run(f"{CREATE} --nodes 9").exit_code == 2
        assert fleet.run(f"{CREATE} --price cheap").exit_code == 2
        assert fleet.run(f"{CREATE} --price NaN").exit_code == 2
        assert fleet.cli.targets == []


def test_down_no_wait_returns_at_once_and_down_again_waits() -> None:
    with running_fleet() as fleet:
        fleet.run("up --gpus 8 --type h100 --name demo --wait")
        assert fleet.run("down demo --no-wait").stdout == "Pool demo is being deleted\n"
        late = fleet.run("down demo --timeout 1s")
        assert late.exit_code == 1
        assert "1 machine of demo left after 1s (demo-0)" in late.stderr
        assert fleet.run("down demo").stdout == "Pool demo is gone\n"
        assert fleet.run("down demo").exit_code == 3


def test_a_machine_can_be_found_by_its_node() -> None:
    with running_fleet() as fleet:
        fleet.run("up --gpus 8 --type h100 --name demo --wait")
        [listed] = json.loads(fleet.run("instance list --state running -o json").stdout)
        got = json.loads(fleet.run("instance get demo-0 -o json").stdout)
        shown = fleet.run("instance get demo-0").stdout

    assert listed == got
    assert got["state"] == "running"
    assert f"Instance ID:    {got['id']}" in shown


def test_up_without_wait_returns_at_once() -> None:
    with running_fleet() as fleet:
        result = fleet.run("up --gpus 9 --type h100 --name demo")

    assert result.exit_code == 0
    assert "Pool demo: 2 x h100-8x at sim in r1 (8 h100s, $98.32/h), $196.64/h" in result.stdout


def test_gpus_without_an_offering_are_bad_usage() -> None:
    with running_fleet() as fleet:
        result = fleet.run("up --gpus 8 --type b300 --name demo")

    assert result.exit_code == 2
    assert "no matching offer of 'b300'; available: h100" in result.stderr


def test_up_with_a_gang_rounds_up_to_whole_gangs_and_shows_it() -> None:
    with running_fleet() as fleet:
        result = fleet.run("up --gpus 9 --type h100 --name demo --gang 4")
        created = json.loads(fleet.run("pool get demo -o json").stdout)

    assert result.exit_code == 0, result.output
    assert "4 x " in result.stdout
    assert "4 together or none" in result.stdout
    assert (created["spec"]["gang"], created["size"]) == (4, 4)


def test_a_size_that_is_not_a_multiple_of_the_gang_is_refused_with_valid_sizes() -> None:
    with running_fleet() as fleet:
        fleet.run("pool create demo --provider fake --type h100-8x --max 8 --gang 4")
        result = fleet.run("pool scale demo 5")

    assert result.exit_code != 0
    assert "request 4 or 8 nodes, not 5" in result.output


def test_flags_describe_how_machines_are_set_up(tmp_path: Path) -> None:
    own = tmp_path / "own.sh"
    own.write_text("#!/bin/sh\nmount /data\n")
    flags = f"--setup-command nvidia-smi --setup-command true --user-data {own} --image ubuntu"
    with running_fleet() as fleet:
        fleet.run(f"{CREATE} {flags}")
        setup = json.loads(fleet.run("pool get train -o json").stdout)["spec"]["setup"]
        assert setup["agent"] is None
        assert setup["commands"] == ["nvidia-smi", "true"]
        assert (setup["user_data"], setup["image"]) == ("#!/bin/sh\nmount /data\n", "ubuntu")
        shown = fleet.run("pool get train").stdout
        assert "Set-up:          2 commands" in shown
        assert "Image:           ubuntu" in shown
        fleet.run("up --gpus 8 --type h100 --name demo --setup-command start --ssh-user admin")
        # Without flags the set-up stays.
        fleet.run("up --gpus 16 --type h100 --name demo")
        setup = json.loads(fleet.run("pool get demo -o json").stdout)["spec"]["setup"]
        assert (setup["agent"], setup["user"], setup["commands"]) == ("ssh", "admin", ["start"])


def test_an_ssh_user_without_commands_is_bad_usage() -> None:
    with running_fleet() as fleet:
        result = fleet.run(f"{CREATE} --ssh-user admin")
        assert result.exit_code == 2
        assert "--ssh-user is for --setup-command, which is missing" in result.stderr
