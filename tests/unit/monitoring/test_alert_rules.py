"""The alert rules that are shipped: each fires when it should, and only then."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import click
import pytest
import yaml
from tests.support.metrics_page import ROOT, series

from navarch.cli.main import navarch

FOLDER = ROOT / "deploy" / "prometheus"
GROUPS = yaml.safe_load((FOLDER / "rules.yml").read_text("utf-8"))["groups"]
RULES: list[dict[str, Any]] = [rule for group in GROUPS for rule in group["rules"]]
NAMES = [rule["alert"] for rule in RULES]
CASES: list[dict[str, Any]] = yaml.safe_load((FOLDER / "rules-test.yml").read_text("utf-8"))[
    "tests"
]


def a_promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed: it comes with Debian's package prometheus")
    return found


def cases_of(alert: str) -> Iterator[dict[str, Any]]:
    for test in CASES:
        yield from (case for case in test["alert_rule_test"] if case["alertname"] == alert)


@pytest.mark.parametrize("alert", NAMES)
def test_each_alert_has_a_case_that_fires_and_one_that_does_not(alert: str) -> None:
    fires = {bool(case["exp_alerts"]) for case in cases_of(alert)}

    assert fires == {True, False}


def test_the_guide_lists_every_alert_with_its_severity() -> None:
    guide = (ROOT / "docs" / "guides" / "monitoring.md").read_text("utf-8")
    listed = re.findall(r"^\| `(Navarch\w+)` \| (\w+) \|", guide, re.MULTILINE)

    assert listed == [(rule["alert"], rule["labels"]["severity"]) for rule in RULES]


def test_promtool_accepts_the_configuration() -> None:
    command = [a_promtool(), "check", "config", "prometheus.yml"]
    result = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)

    assert result.returncode == 0, result.stdout + result.stderr


def test_promtool_finds_every_case_as_expected() -> None:
    command = [a_promtool(), "test", "rules", "rules-test.yml"]
    result = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)

    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("test", CASES, ids=lambda test: test["name"])
def test_each_series_of_a_case_has_the_labels_of_a_metric(test: dict[str, Any]) -> None:
    for given in test["input_series"]:
        name, _, matchers = given["series"].partition("{")
        assert set(re.findall(r'(\w+)="', matchers)) == series()[name], given


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_each_rule_uses_metrics_that_exist(rule: dict[str, Any]) -> None:
    names = set(re.findall(r"\bnavarch_\w+", rule["expr"]))

    assert names
    assert names <= series().keys()
    assert rule["labels"]["severity"] in {"warning", "critical"}


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_each_command_that_an_alert_names_exists(rule: dict[str, Any]) -> None:
    for line in re.findall(r"navarch ([a-z][a-z ]*)", " ".join(rule["annotations"].values())):
        command: click.Command | None = navarch
        for word in line.split():
            if not isinstance(command, click.Group):
                break
            command = command.get_command(click.Context(command), word)
            assert command is not None, f"navarch {line}: there is no {word}"
