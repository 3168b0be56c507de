"""`python -m bench.packing.run` on the command line."""

import json
from pathlib import Path

import pytest
from bench.packing.policies import POLICIES
from bench.packing.run import main
from click.testing import CliRunner, Result

NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(
    f"n{index},32000,9000,4,A\n" for index in range(5)
)
PODS = (
    "cpu_milli,memory_mib,num_gpu,gpu_milli\n" + "4000,100,1,500\n4000,100,1,1000\n8000,9,4,1000\n"
)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text(NODES)
    pods.write_text(PODS)
    return ["--nodes", str(nodes), "--pods", str(pods)]


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def test_json_has_the_figure_the_curve_and_acceptance_by_count(files: list[str]) -> None:
    result = run(*files, "--arrive", "1.3", "--seed", "5", "--json")
    report = json.loads(result.stdout)

    assert result.exit_code == 0
    assert (report["policy"], report["seed"], report["gpus"]) == ("foresight", 5, 20)
    assert report["curve"][-1]["allocation_pct"] == report["allocation_pct"] <= 100
    assert report["curve"][49]["arrived_pct"] == 50
    assert set(report["acceptance_by_gpu_count"]) == {"1", "4"}
    assert report["acceptance_by_gpu_count"]["4"]["accepted_pct"] <= 100
    assert report["pods"] == sum(
        row["arrived"] for row in report["acceptance_by_gpu_count"].values()
    )


def test_the_output_depends_only_on_the_seed(files: list[str]) -> None:
    words = [*files, "--policy", "random", "--json", "--seed"]

    assert run(*words, "1").stdout == run(*words, "1").stdout
    assert run(*words, "1").stdout != run(*words, "2").stdout


def test_several_seeds_give_mean_and_spread(files: list[str]) -> None:
    report = json.loads(run(*files, "--seeds", "3", "--seed", "7", "--json").stdout)

    each = [one["allocation_pct"] for one in report["runs"]]
    assert report["seeds"] == [7, 8, 9]
    assert report["allocation_pct"] == pytest.approx(sum(each) / 3, abs=1e-3)
    assert report["allocation_pct_least"] == min(each)


def test_the_text_is_a_table_that_fits_a_terminal(files: list[str]) -> None:
    text = run(*files, "--seeds", "2").stdout

    assert text.startswith("foresight: ")
    assert "arrived  allocated" in text
    assert max(len(line) for line in text.splitlines()) <= 80


@pytest.mark.parametrize("form", [[], ["--json"], ["--seeds", "2"], ["--seeds", "2", "--json"]])
def test_a_load_below_the_first_pod_shows_an_empty_cluster(
    files: list[str], form: list[str]
) -> None:
    result = run(*files, "--arrive", "0.000001", *form)

    assert result.exit_code == 0, result.output
    assert "0.00 %" in result.output or json.loads(result.output)["curve"] == []


def test_an_unknown_policy_is_rejected_with_the_list_of_policies(files: list[str]) -> None:
    result = run(*files, "--policy", "fdg")

    assert result.exit_code == 1
    assert "choose one of foresight, fgd, best-fit" in result.output


def test_help_names_every_policy() -> None:
    text = run("--help").stdout.replace("-\n  ", "-")  # a name may be wrapped at its hyphen

    assert [name for name in POLICIES if name not in text] == []


def test_a_bad_line_is_named_with_its_file(files: list[str]) -> None:
    Path(files[3]).write_text(PODS + "4000,x,1,500\n")

    result = run(*files)

    assert result.exit_code == 1
    assert "pods.csv, line 5, memory_mib: 'x' is not a whole number" in result.output


def test_a_binary_file_is_rejected(files: list[str]) -> None:
    Path(files[1]).write_bytes(b"\xff\xfe\x00")

    result = run(*files)

    assert result.exit_code == 1
    assert "nodes.csv, line 1: not UTF-8 text" in result.output
