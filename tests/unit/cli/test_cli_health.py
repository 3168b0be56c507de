"""`navarch health` and `navarch diag` against a running control plane."""

import json
from datetime import UTC, datetime

from cli_fleet import running_fleet

from navarch.cli.diag import parse_results
from navarch.cli.render.fleet_health import _about, _names
from navarch.core.health import CheckResult, Condition, Health
from navarch.core.ids import NodeId
from navarch.core.instance import Gpu

UP = "up --gpus 8 --type h100 --name demo --wait"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_health_assigns_each_finding_to_its_gpu_and_shows_the_history() -> None:
    with running_fleet() as fleet:
        fleet.run(UP)
        reason = "GPU 2 uses 8 of 16 PCIe lanes; GPU 3 uses 4 of 16 PCIe lanes"
        fleet.world.agent(NodeId("demo-0")).results["pcie"] = CheckResult(
            check="pcie", health=Health.DEGRADED, reason=reason
        )
        fleet.world.agent(NodeId("demo-0")).results["disk"] = CheckResult(
            check="disk", health=Health.DEGRADED, reason="/ has only 1.0 GiB left"
        )
        fleet.wait(120)

        shown = fleet.run("health demo-0")
        answer = json.loads(fleet.run("health demo-0 -o json").stdout)

    assert shown.exit_code == 0, shown.output
    rows = {line.split()[0]: line for line in shown.stdout.splitlines() if "NVIDIA" in line}
    assert "GPU 2 uses 8" in rows["2"]
    assert "GPU 3" not in rows["2"]
    assert "Degraded" in rows["3"]
    assert "Healthy" in rows["0"]
    assert "disk: / has only 1.0 GiB left" in shown.stdout
    assert "History:" in shown.stdout
    assert [condition["check"] for condition in answer["others"]] == ["disk"]
    assert answer["history"]


def test_an_application_error_is_in_the_history_of_a_healthy_node() -> None:
    with running_fleet() as fleet:
        fleet.run(UP)
        fleet.world.agent(NodeId("demo-0")).results["xid/31/GPU-x"] = CheckResult(
            check="xid/31/GPU-x",
            health=Health.HEALTHY,
            reason="XID 31 on GPU 2: a kernel touched memory that is not mapped",
            lasting=True,
            facts={"code": "31", "kind": "xid", "class": "application"},
        )
        fleet.wait(120)

        shown = fleet.run("health demo-0").stdout

    assert "node demo-0 is healthy" in shown
    assert "XID 31 on GPU 2" in shown.partition("History:")[2]


def test_diag_issues_a_command_waits_and_shows_the_results() -> None:
    with running_fleet() as fleet:
        fleet.run(UP)

        result = fleet.run("diag demo-0 --test burn --test patterns")

        assert result.exit_code == 0, result.output
        assert result.stdout == "done\n"
        carried_out = fleet.world.agent(NodeId("demo-0")).carried_out
        assert [str(kind) for kind in carried_out.values()] == ["run_diagnostic"]
        missing = fleet.run("diag nobody")
        assert missing.exit_code == 3
        wrong = fleet.run("diag demo-0 --test fire")
        assert wrong.exit_code == 2


def test_a_test_across_nodes_requires_idle_cordoned_peers() -> None:
    with running_fleet() as fleet:
        fleet.run(UP.replace("--gpus 8", "--gpus 16"))

        alone = fleet.run("diag demo-0 --test burn --with demo-1")
        working = fleet.run("diag demo-0 --test nccl --with demo-1")
        fleet.run("cordon demo-1 --reason test")
        spanning = fleet.run("diag demo-0 --test nccl --with demo-1")

    assert alone.exit_code == 2
    assert "spans nodes" in alone.output
    assert working.exit_code != 0
    assert "navarch cordon demo-1" in working.output
    assert "has not reported its address" in spanning.output, "as no simulated machine does"


def test_result_lines_are_parsed_and_other_text_is_ignored() -> None:
    text = "burn healthy: GPU 0: 700 TFLOP/s bf16\ndcgm unknown: not run: dcgmi is not installed\nx"

    assert parse_results(text) == [
        CheckResult(check="burn", health=Health.HEALTHY, reason="GPU 0: 700 TFLOP/s bf16"),
        CheckResult(check="dcgm", health=Health.UNKNOWN, reason="not run: dcgmi is not installed"),
    ]


def test_a_finding_with_a_gpu_uuid_in_its_name_belongs_to_that_gpu() -> None:
    gpu = Gpu(index=1, uuid="GPU-m-1")
    by_name = Condition(check="xid/79/GPU-m-1", health=Health.UNHEALTHY, reason="XID 79", since=NOW)
    of_another = Condition(
        check="pcie", health=Health.DEGRADED, reason="GPU 10 uses 8 of 16 lanes", since=NOW
    )

    assert _names(by_name, gpu)
    assert not _names(of_another, gpu)
    assert _about(by_name, gpu) == by_name
