"""Configurations, policies, scenarios and inventories share one reader."""

from collections.abc import Callable
from pathlib import Path

import pytest

from navarch.config import ConfigError, parse_config
from navarch.config.loading import load_inventory
from navarch.config.policy import load_policy, parse_policy
from navarch.sim.scenario.loading import load_scenario, parse_scenario

PARSERS: dict[str, Callable[[str], object]] = {
    "config": parse_config,
    "policy": parse_policy,
    "scenario": parse_scenario,
}


@pytest.mark.parametrize("noun", PARSERS)
def test_a_syntax_error_names_the_kind_of_file_and_its_place(noun: str) -> None:
    with pytest.raises(ConfigError) as caught:
        PARSERS[noun]("a: 1\nb: ]\n")
    assert caught.value.stage == f"parsing {noun}"
    (problem,) = caught.value.problems
    assert problem.place is not None
    assert problem.place.line == 2


@pytest.mark.parametrize(
    ("noun", "label"),
    [("config", "a configuration"), ("policy", "a policy"), ("scenario", "a scenario")],
)
def test_a_list_in_place_of_a_mapping_is_refused(noun: str, label: str) -> None:
    with pytest.raises(ConfigError, match=f"{label} must be a mapping, not a list") as caught:
        PARSERS[noun]("- 1\n")
    assert caught.value.stage == f"invalid {noun}"


@pytest.mark.parametrize("noun", PARSERS)
def test_problems_are_in_the_order_of_the_file(noun: str) -> None:
    with pytest.raises(ConfigError) as caught:
        PARSERS[noun]("zebra: 1\nname: [a]\naardvark: 2\n")
    places = [problem.place for problem in caught.value.problems if problem.place is not None]
    assert len(places) >= 2
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("load", "noun"), [(load_scenario, "scenario"), (load_policy, "policy"), (load_inventory, "")]
)
def test_a_missing_file_is_named(load: Callable[[str], object], noun: str, tmp_path: Path) -> None:
    path = str(tmp_path / "missing.yaml")
    with pytest.raises(ConfigError, match="No such file") as caught:
        load(path)
    assert path in str(caught.value)
    assert caught.value.stage == f"reading {noun or 'config'}"


def test_a_duplicate_key_in_an_inventory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yaml"
    path.write_text("hosts: []\nhosts: []\n")
    with pytest.raises(ConfigError, match="hosts") as caught:
        load_inventory(str(path))
    assert caught.value.problems[0].place is not None
