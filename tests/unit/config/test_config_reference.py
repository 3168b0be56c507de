"""The documentation lists every key of the schema."""

from collections.abc import Iterator
from pathlib import Path

import yaml

from navarch.config import parse_config
from navarch.config.block import Named, Nested, Tagged
from navarch.config.catalogue import ABSTRACT_TYPES
from navarch.config.config import Config
from navarch.config.kinds import ListOf
from navarch.config.reference import SECTIONS, render_reference
from navarch.config.schema import keys_of

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "configuration.md"


def blocks(cls: type, seen: set[type]) -> Iterator[type]:
    if cls in seen:
        return
    seen.add(cls)
    yield cls
    for declared in keys_of(cls).values():
        for inner in inner_blocks(declared.kind):
            yield from blocks(inner, seen)


def inner_blocks(kind: object) -> list[type]:
    match kind:
        case ListOf(each=each) | Named(each=each):
            return inner_blocks(each)
        case Nested(cls=cls):
            return [cls]
        case Tagged(options=options):
            return list(options({}).values())
    return []


def test_the_tables_are_up_to_date() -> None:
    text = PAGE.read_text("utf-8")

    assert render_reference(text) == text, "run python -m navarch.config.reference on the page"


def test_every_block_has_a_table() -> None:
    text = PAGE.read_text("utf-8")

    assert set(blocks(Config, set())) == set(SECTIONS.values())
    for section in SECTIONS:
        assert f"<!-- keys {section} -->" in text


def test_the_table_of_abstract_types_is_the_catalogue() -> None:
    text = PAGE.read_text("utf-8")

    for name, abstract in ABSTRACT_TYPES.items():
        (row,) = [line for line in text.splitlines() if line.startswith(f"| `{name}` |")]
        cells = [cell.strip() for cell in row.strip("|").split("|")[1:]]
        for cell, provider in zip(cells, ("lambda", "gcp", "aws"), strict=True):
            known = abstract.names.get(provider)
            assert cell.startswith(f"`{known}`") if known else cell == ""


def test_the_yaml_on_the_page_is_valid() -> None:
    samples = PAGE.read_text("utf-8").split("```yaml\n")[1:]

    for sample in samples:
        text = sample.split("```")[0]
        assert yaml.safe_load(text)
        parse_config(text)
