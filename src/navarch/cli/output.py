"""JSON and YAML output, and lists that are read page by page."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import TypeVar

import msgspec

from navarch.cli.errors import CommandError
from navarch.cli.printing import escaped, visible
from navarch.core.event import Recorded, Subject
from navarch.ports.api import PAGE_SIZE_MAX, FleetApi, NodeDetail, Page, PoolView, Query


class Output(StrEnum):
    """Output format."""

    TABLE = "table"
    WIDE = "wide"
    """A table with all columns, also those that do not fit the terminal."""
    NAME = "name"
    JSON = "json"
    YAML = "yaml"


def as_data(value: object) -> object:
    """Return `value` as plain lists, dicts, strings and numbers."""
    return msgspec.to_builtins(value, enc_hook=_plain)


def render_data(value: object, output: Output) -> str:
    """Return `value` as JSON, YAML or names, without a final newline."""
    if output is Output.NAME:
        return "\n".join(map(_name, value if isinstance(value, list | tuple) else [value]))
    if output is Output.YAML:
        return _yaml(as_data(value))
    return escaped(json.dumps(as_data(value), indent=2, ensure_ascii=False))


def _name(item: object) -> str:
    """Return the name by which other commands know a node, instance, pool, job or incident."""
    named = item
    if isinstance(item, NodeDetail):
        named = item.node
    elif isinstance(item, PoolView):
        named = item.spec
    name = getattr(named, "id", None) or getattr(named, "name", None)
    if not isinstance(name, str):
        raise CommandError(
            "what this command prints has no names; -o name is for nodes, instances, pools, jobs "
            "and incidents. Use -o json"
        )
    return name


def render_line(value: object) -> str:
    """Return `value` as JSON on one line, for streams."""
    return escaped(json.dumps(as_data(value), ensure_ascii=False))


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise NotImplementedError(f"{type(value).__name__} cannot be written as JSON")


def _yaml(data: object) -> str:
    import yaml  # Imported late: it takes as long as the rest of a command.

    # The C dumper is ten times as fast, but not always built.
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(data, Dumper=dumper, sort_keys=False, allow_unicode=True)
    if visible(text) != text:
        text = yaml.dump(data, Dumper=dumper, sort_keys=False, allow_unicode=False)
    return text.rstrip("\n")


T = TypeVar("T")


async def list_all(list_page: Callable[[Query], Awaitable[Page[T]]], query: Query) -> list[T]:
    """Return the items of all pages."""
    found: list[T] = []
    query = replace(query, page_size=PAGE_SIZE_MAX)
    while True:
        page = await list_page(query)
        found += page.items
        if not page.next_page_token:
            return found
        query = replace(query, page_token=page.next_page_token)


async def list_all_events(
    api: FleetApi, *, after: int = 0, about: Subject | None = None
) -> list[Recorded]:
    """Return every event after number `after`, oldest first."""
    found: list[Recorded] = []
    while page := await api.events(after=after, about=about, limit=PAGE_SIZE_MAX):
        found += page
        after = page[-1].number
    return found
