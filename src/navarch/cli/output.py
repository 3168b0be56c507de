"""JSON and YAML output, with words for enums and RFC 3339 for times."""

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec


class Output(StrEnum):
    """Output format."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def as_data(value: object) -> object:
    """Return `value` as plain lists, dicts, strings and numbers."""
    return msgspec.to_builtins(value, enc_hook=_plain)


def render_data(value: object, output: Output) -> str:
    """Return `value` as JSON or YAML, without a final newline."""
    if output is Output.YAML:
        return _yaml(as_data(value))
    return json.dumps(as_data(value), indent=2, ensure_ascii=False)


def render_line(value: object) -> str:
    """Return `value` as JSON on one line, for streams."""
    return json.dumps(as_data(value), ensure_ascii=False)


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
    return text.rstrip("\n")
