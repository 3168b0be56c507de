"""YAML, JSON and INI in the documentation are accepted by what reads them."""

import configparser
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from doc_pages import Block, all_blocks, blocks, pages

from navarch.config import parse_config
from navarch.config.config import Config
from navarch.config.context import FileText
from navarch.config.loading import load_inventory
from navarch.config.policy import parse_policy
from navarch.config.pool import PoolConfig
from navarch.config.provider import PROVIDER_TYPES
from navarch.config.schema import key_names
from navarch.sim.scenario.loading import parse_scenario

LANGUAGES = {
    "console": "commands after `$`, with their output",
    "ini": "a unit of systemd",
    "json": "a message",
    "python": "a program",
    "sh": "commands",
    "text": "output, or a layout; nothing that a reader types",
    "yaml": "a configuration, a policy, a scenario or an inventory, whole or in part",
}


def by_place(*languages: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("block", list(all_blocks(*languages)), ids=lambda b: b.place)


def test_every_block_names_its_language() -> None:
    found = [block for page in pages() for block in blocks(page) if block.language != "hidden"]
    assert [block.place for block in found if block.language not in LANGUAGES] == []


@by_place("text")
def test_text_holds_nothing_to_type(block: Block) -> None:
    assert not [line for line in block.text.splitlines() if line.startswith(("$ ", "navarch "))]


@by_place("json")
def test_json_parses(block: Block) -> None:
    json.loads(block.text)


@by_place("ini")
def test_units_parse(block: Block) -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read_string(block.text)
    assert "Service" in unit


@by_place("yaml")
def test_yaml_is_what_its_reader_accepts(block: Block, tmp_path: Path) -> None:
    """A fragment is completed to the file that it is a part of."""
    tree = yaml.safe_load(block.text)
    match tree:
        case list():
            parse_policy(yaml.safe_dump({"rules": tree}))
        case {"rules": _}:
            parse_policy(block.text)
        case {"write_files": _}:
            assert block.text.startswith("#cloud-config\n")
        case {"hosts": [*_]}:
            inventory = tmp_path / "hosts.yaml"
            inventory.write_text(block.text)
            load_inventory(str(inventory))
        case {"name": _, "events": _}:
            parse_scenario(block.text)
        case dict() if set(tree) <= set(key_names(Config)):
            accept(tree)
        case dict() if set(tree) <= set(key_names(PoolConfig)):
            accept({"pools": {"example": tree}})
        case dict():
            (kind,) = [kind for kind, cls in PROVIDER_TYPES.items() if fits(tree, cls)]
            accept({"providers": {"example": {"type": kind} | tree}})


def accept(fragment: dict[str, Any]) -> None:
    """Parse a configuration file that contains the fragment; files with secrets exist."""
    text = yaml.safe_dump(completed(fragment))
    parse_config(
        text,
        read_file=lambda _: FileText(text="secret"),
        references=lambda *_: "a-secret-that-is-long-enough",
    )


def fits(tree: Mapping[str, object], cls: type) -> bool:
    return set(tree) <= set(key_names(cls))


def completed(tree: dict[str, Any]) -> dict[str, Any]:
    """Return a whole configuration with what a fragment leaves out."""
    whole = {"providers": {}, "pools": {}} | tree
    pools = {name: dict(pool) for name, pool in whole["pools"].items()} or {"example": {}}
    providers = dict(whole["providers"])
    for pool in pools.values():
        if not pool.keys() & {"provider", "providers"}:
            pool["provider"] = next(iter(providers), "cloud")
        pool.setdefault("instance_type", "h100-8x")
        pool.setdefault("max_nodes", 4)
        name = pool.get("provider", "cloud")
        found = providers.setdefault(name, {"type": name if name in PROVIDER_TYPES else "fake"})
        if not tree.get("pools") and found.get("type") in ("aws", "lambda"):
            pool |= {"region": "us-east-1", "ssh_keys": ["laptop"]}
    server = {"external_address": "https://navarch.example.com"} | whole.get("server", {})
    return whole | {"server": server, "pools": pools, "providers": providers}
