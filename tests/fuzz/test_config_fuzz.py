"""Mangled configurations are always a Config or a ConfigError, never a traceback."""

import random
import re
from pathlib import Path

import pytest

from navarch.config import (
    Config,
    ConfigError,
    FileText,
    compare,
    parse_config,
    render_config,
    render_verdict,
    to_pool,
    to_pool_specs,
)

EXAMPLES = [
    path.read_text("utf-8")
    for path in sorted((Path(__file__).parents[2] / "examples" / "config").glob("*.yaml"))
]

TOKENS = (
    *("&a ", "*a", "<<: ", "<<: *bounds", "!!python/object:os.system ", "!x ", "? ", "- ", "---\n"),
    *("{", "}", "[", "]", ":", ",", "'", '"', "|\n", ">-\n", "#", "\t", "\r", "\x85", "\u2028"),
    *("${A}", "${B}", "${", "$${", "${A:-", "${}", "%YAML 9.9\n", "...\n", "=", "~", "null"),
    *("true", "yes", "-1", "0", "1e999", ".nan", ".inf", "0x7f", "0o7", "1_0", "1:30", "9" * 500),
    *("-5m", "1h", "99999999999h", "2026-01-01", "\ud800", "\0", "\x1b[31m", "é", "💥", "\ufeff"),
    *(
        "pools:",
        "provider: ",
        "type: ",
        "fallback: {type: scheduled}",
        "auth_token_file: x",
        "x-: ",
    ),
    *("min_nodes: ", "max_nodes: ", "cooldown: ", "autoscaling: ", "schedule: [{}]", "hosts: [{}]"),
)


def mangled(seed: int) -> str:
    """Return a valid text with a few random changes."""
    chance = random.Random(seed)
    text = chance.choice(EXAMPLES)
    for _ in range(chance.randint(1, 4)):
        text = chance.choice(ACCIDENTS)(chance, text)
    return text


def insert_token(chance: random.Random, text: str) -> str:
    at = chance.randint(0, len(text))
    return text[:at] + chance.choice(TOKENS) + text[at:]


def replace_value(chance: random.Random, text: str) -> str:
    lines = text.split("\n")
    at = chance.randrange(len(lines))
    key, colon, _ = lines[at].partition(":")
    lines[at] = f"{key}{colon} {chance.choice(TOKENS)}"
    return "\n".join(lines)


def delete_part(chance: random.Random, text: str) -> str:
    start = chance.randint(0, len(text))
    return text[:start] + text[start + chance.randint(1, 30) :]


def move_line(chance: random.Random, text: str) -> str:
    lines = text.split("\n")
    line = lines.pop(chance.randrange(len(lines)))
    lines.insert(chance.randint(0, len(lines)), line)
    return "\n".join(lines)


def repeat_line(chance: random.Random, text: str) -> str:
    lines = text.split("\n")
    at = chance.randrange(len(lines))
    return "\n".join([*lines[:at], *[lines[at]] * chance.choice((2, 50)), *lines[at:]])


def shift_line(chance: random.Random, text: str) -> str:
    lines = text.split("\n")
    at = chance.randrange(len(lines))
    lines[at] = chance.choice(("  " + lines[at], lines[at][2:], lines[at].lstrip()))
    return "\n".join(lines)


def change_character(chance: random.Random, text: str) -> str:
    at = chance.randint(0, max(0, len(text) - 1))
    return (
        text[:at]
        + chr(chance.choice((chance.randrange(32, 127), chance.randrange(0x10FFFF))))
        + text[at + 1 :]
    )


def swap_words(chance: random.Random, text: str) -> str:
    words = text.split(" ")
    one, other = chance.randrange(len(words)), chance.randrange(len(words))
    words[one], words[other] = words[other], words[one]
    return " ".join(words)


ACCIDENTS = (
    insert_token,
    replace_value,
    delete_part,
    move_line,
    repeat_line,
    shift_line,
    change_character,
    swap_words,
)


def read_file(path: Path) -> FileText:
    if "\0" in str(path):
        raise ValueError("embedded null byte")
    raise FileNotFoundError(2, "No such file or directory")


def survives(text: str) -> bool:
    """Load, render and compare a text; return whether it is a valid configuration."""
    environment = {"A": "1", "HOME": "/home/me", "NAVARCH_AUTH_TOKEN": "t" * 16}
    try:
        config = parse_config(text, source="f", environment=environment, read_file=read_file)
    except ConfigError as error:
        return not str(error)
    assert render_verdict("f", config)
    for spec in to_pool_specs(config):
        to_pool(spec)
    assert str(compare(config, Config()))
    shown = render_config(config)
    # The mask of a token is no token.
    given = re.sub(r"auth_token: .*", "auth_token: " + "t" * 16, shown)
    assert render_config(parse_config(given, environment=environment)) == shown
    return True


def check_seeds(seeds: range) -> None:
    accepted = 0
    for seed in seeds:
        text = mangled(seed)
        try:
            accepted += survives(text)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r} from\n{text!r}") from error
    assert 0 < accepted < len(seeds), "the accidents are too mild or too grave to teach anything"


def test_a_thousand_mangled_files_raise_nothing_but_config_errors() -> None:
    check_seeds(range(1_000))


@pytest.mark.long
def test_ten_thousand_mangled_files_raise_nothing_but_config_errors() -> None:
    check_seeds(range(1_000, 11_000))


def test_random_bytes_raise_nothing_but_config_errors() -> None:
    chance = random.Random(1)
    for _ in range(300):
        data = chance.randbytes(chance.randint(0, 200))
        assert not survives(data.decode("utf-8", "surrogateescape"))
