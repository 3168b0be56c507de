"""`navarch sim`."""

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from navarch.cli.main import navarch
from navarch.cli.sim_interactive import TWO_NODES

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden"
SEEDS = ROOT / ".." / "shared" / "seeds"

FLAKY = """
name: flaky
timing: {heartbeat_interval: 30s, health_check_interval: 30s}
stress:
  duration: 1m
  fleet_gen: {total_nodes: 4, templates: [{name: a, weight: 1, gpu_count: 8}],
              startup: {pattern: instant}}
  chaos: {enabled: true, failure_rate: 250, xid_distribution: {79: 1, 31: 1}}
assertions:
  - {type: node_count, target: all, expected: "4"}
"""


def run_cli(*words: str | Path, stdin: str | None = None) -> Result:
    return CliRunner().invoke(navarch, [str(word) for word in words], input=stdin)


def test_sim_run_prints_assertions_and_figures() -> None:
    answer = run_cli("sim", "run", ROOT / "scenarios" / "gpu-failure.yaml")

    assert answer.exit_code == 0, answer.output
    assert answer.stdout == (GOLDEN / "cli-sim-run.txt").read_text(encoding="utf-8")


def test_a_failed_run_shows_why_and_exits_with_1(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("name: s\nfleet: [{id: n}]\nassertions: [{target: n, expected: active}]\n")
    answer = run_cli("sim", "run", file)

    assert answer.exit_code == 1
    assert "FAIL  node_status of n is active: node not found: n" in answer.stdout
    assert "FAILED: 1 of 1 did not hold" in answer.stdout


def test_an_outcome_can_be_printed_as_json() -> None:
    answer = run_cli("sim", "run", ROOT / "scenarios" / "basic-fleet.yaml", "--json")

    outcome = json.loads(answer.stdout)
    assert outcome["passed"] is True
    assert outcome["figures"]["availability"] == 1.0
    assert [entry["node"] for entry in outcome["nodes"]] == ["node-1", "node-2", "node-3"]


def test_the_seeds_example_runs_as_written(tmp_path: Path) -> None:
    guides = sorted(SEEDS.glob("000_*.txt"))
    if not guides:
        pytest.skip("the guide that holds the example is not here")
    text = guides[0].read_text(encoding="utf-8")
    found = re.search(r"```yaml\n(name: test-custom-autoscaler.*?)```", text, re.DOTALL)
    assert found is not None
    file = tmp_path / "example.yaml"
    file.write_text(found[1])

    assert run_cli("sim", "run", file).exit_code == 0


def test_the_smallest_failing_seed_is_shown_with_the_command_that_repeats_it(
    tmp_path: Path,
) -> None:
    file = tmp_path / "flaky.yaml"
    file.write_text(FLAKY)
    answer = run_cli("sim", "run", file, "--seeds", "12", "--processes", "1")

    assert answer.exit_code == 1, answer.output
    command = answer.stdout.strip().splitlines()[-1].removeprefix("Repeat the first failure: ")
    seed = int(command.split()[-1])
    assert command == f"navarch sim run {file} --seed {seed}"
    assert run_cli(*command.split()[1:]).exit_code == 1
    for smaller in range(seed):
        assert run_cli("sim", "run", file, "--seed", str(smaller)).exit_code == 0


def test_seeds_give_the_same_results_in_one_process_and_in_two(tmp_path: Path) -> None:
    file = tmp_path / "flaky.yaml"
    file.write_text(FLAKY)
    one, two = (
        run_cli("sim", "run", file, "--seeds", "16", "--processes", n, "--json") for n in "12"
    )

    assert json.loads(one.stdout) == json.loads(two.stdout)


def test_sim_validate_reports_line_and_column(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("name: s\nfleet: [{id: n}]\nassertion: []\n")
    answer = run_cli("sim", "validate", file, ROOT / "scenarios" / "basic-fleet.yaml")

    assert answer.exit_code == 1
    assert f"{file}:3:1: unknown key" in answer.stderr
    assert 'did you mean "assertions"?' in answer.stderr
    assert "basic-fleet is valid: 3 nodes, 6 events, 4 assertions" in answer.stdout


def test_sim_list_shows_every_scenario() -> None:
    answer = run_cli("sim", "list", ROOT / "scenarios")

    assert answer.exit_code == 0
    assert len(answer.stdout.splitlines()) == 1 + len(list((ROOT / "scenarios").rglob("*.yaml")))


@pytest.mark.parametrize("kind", ["fleet", "pool", "stress"])
def test_a_new_scenario_runs_and_is_never_overwritten(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert run_cli("sim", "new", "mine", "--kind", kind).exit_code == 0
    assert run_cli("sim", "run", "mine.yaml").exit_code == 0
    assert run_cli("sim", "new", "mine").exit_code == 1


def test_a_run_can_be_replayed_and_compared(tmp_path: Path) -> None:
    scenario = ROOT / "scenarios" / "pool-replacement.yaml"
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    run_cli("sim", "run", scenario, "--out", one)
    run_cli("sim", "run", scenario, "--out", two, "--seed", "3")

    assert run_cli("sim", "replay", one).exit_code == 0
    comparison = run_cli("sim", "compare", one, two).stdout
    assert "replacement.max_s" in comparison
    assert "every figure is the same" in run_cli("sim", "compare", one, one).stdout

    changed = json.loads(one.read_text())
    changed["trace"] = "0" * 16
    one.write_text(json.dumps(changed))
    answer = run_cli("sim", "replay", one)
    assert answer.exit_code == 1
    assert "The result differs" in answer.stderr


def test_a_scenario_writes_its_report_files(tmp_path: Path) -> None:
    plain = yaml.safe_load(FLAKY)
    plain["stress"] |= {
        "report_file": str(tmp_path / "a" / "report.json"),
        "log_file": str(tmp_path / "b" / "run.log"),
        "html_report_file": str(tmp_path / "report.html"),
    }
    file = tmp_path / "s.yaml"
    file.write_text(yaml.safe_dump(plain))
    run_cli("sim", "run", file)

    assert json.loads((tmp_path / "a" / "report.json").read_text())["scenario"] == "flaky"
    assert "node.registered" in (tmp_path / "b" / "run.log").read_text()
    assert "<title>flaky" in (tmp_path / "report.html").read_text()


def test_runs_and_comparisons_are_written_as_html(tmp_path: Path) -> None:
    page, outcome, again, both = (tmp_path / x for x in ("1.html", "1.json", "2.html", "3.html"))
    run_cli("sim", "run", ROOT / "scenarios" / "gpu-failure.yaml", "--html", page, "--out", outcome)
    run_cli("sim", "report", outcome, again)
    run_cli("sim", "compare", outcome, outcome, "--html", both)

    assert page.read_text() == again.read_text()
    assert "gpu-failure" in page.read_text()
    assert "Both runs have the same configuration" in both.read_text()


def test_a_scenario_with_pools_is_refused_in_real_time() -> None:
    answer = run_cli("sim", "run", ROOT / "scenarios" / "stock-out.yaml", "--real-time")

    assert answer.exit_code == 2
    assert "play this scenario in virtual time" in answer.stderr


def test_seeds_and_real_time_cannot_be_combined() -> None:
    answer = run_cli("sim", "run", "x.yaml", "--real-time", "--seeds", "2")

    assert answer.exit_code == 2


def test_the_default_interactive_scenario_has_two_nodes() -> None:
    assert [node["id"] for node in yaml.safe_load(TWO_NODES)["fleet"]] == ["node-1", "node-2"]
