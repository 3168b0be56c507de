"""`navarch health` and `navarch diag`, typed against a whole control plane."""

import json
from datetime import UTC, datetime

from cli_world import a_place

from navarch.cli.diag import parse_results
from navarch.cli.render.health import _about, _names
from navarch.core.health import CheckResult, Condition, Health
from navarch.core.ids import NodeId
from navarch.core.inventory import Gpu

UP = "up --gpus 8 --type h100 --name demo --wait"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_health_gives_every_finding_to_the_gpu_it_names_and_shows_how_it_came() -> None:
    with a_place() as place:
        place.type(UP)
        reason = "GPU 2 uses 8 of 16 PCIe lanes; GPU 3 uses 4 of 16 PCIe lanes"
        place.world.agent(NodeId("demo-0")).results["pcie"] = CheckResult(
            check="pcie", health=Health.DEGRADED, reason=reason
        )
        place.world.agent(NodeId("demo-0")).results["disk"] = CheckResult(
            check="disk", health=Health.DEGRADED, reason="/ is full but for 1.0 GiB"
        )
        place.wait(120)

        shown = place.type("health demo-0")
        answer = json.loads(place.type("health demo-0 -o json").stdout)

    assert shown.exit_code == 0, shown.output
    rows = {line.split()[0]: line for line in shown.stdout.splitlines() if "NVIDIA" in line}
    assert "GPU 2 uses 8" in rows["2"]
    assert "GPU 3" not in rows["2"]
    assert "Degraded" in rows["3"]
    assert "Healthy" in rows["0"]
    assert "disk: / is full but for 1.0 GiB" in shown.stdout
    assert "History:" in shown.stdout
    assert [condition["check"] for condition in answer["others"]] == ["disk"]
    assert answer["history"]


def test_a_fault_of_a_program_is_in_the_history_of_a_node_that_is_well() -> None:
    with a_place() as place:
        place.type(UP)
        place.world.agent(NodeId("demo-0")).results["xid/31/GPU-x"] = CheckResult(
            check="xid/31/GPU-x",
            health=Health.HEALTHY,
            reason="XID 31 on GPU 2: a kernel touched memory that is not mapped",
            lasting=True,
            facts={"code": "31", "kind": "xid", "class": "application"},
        )
        place.wait(120)

        shown = place.type("health demo-0").stdout

    assert "node demo-0 is healthy" in shown
    assert "XID 31 on GPU 2" in shown.partition("History:")[2]


def test_a_diagnosis_is_asked_for_waited_for_and_told() -> None:
    with a_place() as place:
        place.type(UP)

        told = place.type("diag demo-0 --test burn --test patterns")

        assert told.exit_code == 0, told.output
        assert told.stdout == "done\n"
        carried_out = place.world.agent(NodeId("demo-0")).carried_out
        assert [str(kind) for kind in carried_out.values()] == ["run_diagnostic"]
        missing = place.type("diag nobody")
        assert missing.exit_code == 3
        wrong = place.type("diag demo-0 --test fire")
        assert wrong.exit_code == 2


def test_a_test_that_spans_nodes_wants_its_peers_out_of_work() -> None:
    with a_place() as place:
        place.type(UP.replace("--gpus 8", "--gpus 16"))

        alone = place.type("diag demo-0 --test burn --with demo-1")
        working = place.type("diag demo-0 --test nccl --with demo-1")
        place.type("cordon demo-1 --reason test")
        spanning = place.type("diag demo-0 --test nccl --with demo-1")

    assert alone.exit_code == 2
    assert "spans nodes" in alone.output
    assert working.exit_code != 0
    assert "navarch cordon demo-1" in working.output
    assert "has not reported its address" in spanning.output, "as no simulated machine does"


def test_an_agents_lines_are_read_as_results_and_other_text_is_left_alone() -> None:
    text = "burn healthy: GPU 0: 700 TFLOP/s bf16\ndcgm unknown: not run: dcgmi is not installed\nx"

    assert parse_results(text) == [
        CheckResult(check="burn", health=Health.HEALTHY, reason="GPU 0: 700 TFLOP/s bf16"),
        CheckResult(check="dcgm", health=Health.UNKNOWN, reason="not run: dcgmi is not installed"),
    ]


def test_a_finding_with_a_uuid_in_its_name_belongs_to_that_gpu() -> None:
    gpu = Gpu(index=1, uuid="GPU-m-1")
    by_name = Condition(check="xid/79/GPU-m-1", health=Health.UNHEALTHY, reason="XID 79", since=NOW)
    of_another = Condition(
        check="pcie", health=Health.DEGRADED, reason="GPU 10 uses 8 of 16 lanes", since=NOW
    )

    assert _names(by_name, gpu)
    assert not _names(of_another, gpu)
    assert _about(by_name, gpu) == by_name
