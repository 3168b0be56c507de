"""YAML documents: anchors, duplicate keys, bombs, syntax errors and excerpts."""

import pytest
import yaml

from navarch.config import ConfigError, Problem, parse_config
from navarch.config.document import parse_document
from navarch.config.errors import Source

POOL = "providers: {c: {type: fake}}\npools: {p: {provider: c, instance_type: x, max_nodes: 1}}\n"


def refusal(text: str, **environment: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, source="f", environment=environment)
    return caught.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[" * 100_000, "1:33: nested more than 32 deep"),
        ("a: &a [*a]\n", "1:8: *a is inside &a, so it would never end"),
        ("a: *b\n", "1:4: *b has no anchor"),
        ("- &a [x]\n" + "- *a\n" * 1001, "1002:3: more than 1000 aliases"),
        (
            "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
            + "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 9)),
            "5:46: more than 100000 values, counting each alias in full",
        ),
        (
            "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 40)),
            "32:12: nested more than 32 deep",
        ),
        ("- x\n" * 100_001, "100000:3: more than 100000 values, counting each alias in full"),
        (f"{POOL}---\na: 1\n", "3:1: a second document begins here"),
        ("a: \x1b[2J\n", "1:4: the character U+001B is not allowed"),
        ("a: b\n\0", "2:1: the character U+0000 is not allowed"),
        ("a:\n\tb: 1\n", "2:1: not valid YAML: found character that cannot start any token"),
    ],
)
def test_a_hostile_document_is_refused_before_it_is_expanded(text: str, expected: str) -> None:
    error = refusal(text)

    (problem,) = error.problems
    assert problem.place is not None
    assert f"{problem.place.line}:{problem.place.column}: {problem.message}" == expected
    assert error.stage == "parsing config"


def test_a_text_that_is_too_long_is_not_parsed() -> None:
    (problem,) = refusal("# " + "x" * (1 << 20)).problems

    assert problem.message == "longer than 1048576 characters"


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("a:\n\tb: 1\n", "indent with spaces; YAML does not allow tabs there"),
        ("a: {b: ${C}}\n", 'inside {...} and [...] a variable needs quotes: "${NAME}"'),
        ("a: [b\n", "look for a missing colon, quote or bracket here or on the line above"),
    ],
)
def test_a_syntax_error_names_its_usual_cause(text: str, remedy: str) -> None:
    assert refusal(text).problems[0].remedy == remedy


def test_the_slow_parser_builds_the_same_tree() -> None:
    source = Source("f", POOL + "a: 'ü' \nb: &b {c: [1, ~, yes]}\nd: *b\nb: 1\n")
    fast: list[Problem] = []
    slow: list[Problem] = []

    tree = parse_document(source, fast)

    assert parse_document(source, slow, loader=yaml.SafeLoader) == tree
    assert slow == fast


def test_a_duplicate_key_is_refused_with_the_line_of_the_first() -> None:
    (problem,) = refusal(POOL + "server: {}\nserver: {}\n").problems

    assert problem.message == 'duplicate key "server"'
    assert problem.remedy == "it is already on line 3; keep one of the two"


def test_anchors_and_merge_keys_work() -> None:
    config = parse_config(
        """\
x-common: &common {provider: c, instance_type: x, max_nodes: 9}
x-small: &small {max_nodes: 3}
providers: {c: {type: fake}}
pools:
  one: {<<: *common}
  two: {<<: [*small, *common], min_nodes: 2}
  three: {<<: *common, max_nodes: 4}
"""
    )
    assert [pool.max_nodes for pool in config.pools.values()] == [9, 3, 4]


def test_a_mistake_in_an_anchor_is_reported_at_the_anchor() -> None:
    text = "x-a: &a {provider: c, instance_type: x, max_nodes: lots}\n"

    (problem,) = refusal(text + "providers: {c: {type: fake}}\npools: {p: *a}\n").problems

    assert problem.place is not None
    assert problem.place.line == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "pools: !!python/object:os.system {}\n",
            'the tag "tag:yaml.org,2002:python/object:os.system" is not supported',
        ),
        ("pools: !secret x\n", 'the tag "!secret" is not supported'),
        ("? [a]\n: b\n", "a key must be a name"),
        ("<<: 3\n", "<< merges mappings"),
    ],
)
def test_tags_and_odd_keys_are_refused(text: str, message: str) -> None:
    assert message in [problem.message for problem in refusal(text).problems]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("auth_tokn: hunter2", "auth_tokn: ***"),
        ("x_secret: 'hunter2'", "x_secret: ***"),
        ("auth_tokn: hunt, hunter2]", "auth_tokn: ***"),
        ("wrong: {auth: hunter2, b: 1}", "wrong: {auth: ***, b: 1}"),
        ("password: [hunter2]", "password: ***"),
        ("api_key_env_: ${HUNTER2}", "api_key_env_: ${HUNTER2}"),
        ("token_file: /run/token", "token_file: /run/token"),
    ],
)
def test_a_quoted_line_masks_secrets(line: str, shown: str) -> None:
    error = refusal(f"{line}\n{POOL}")

    assert f"  1 | {shown}\n" in str(error)
    assert "hunter2" not in str(error)


def test_the_caret_accounts_for_the_mask_before_it() -> None:
    text = POOL + "server: {auth_token: hunter2hunter2hunter2, colour: blue}\n"

    assert refusal(text).problems[0].excerpt == (
        "  3 | server: {auth_token: ***, colour: blue}\n    |                           ^"
    )


def test_a_value_of_a_million_characters_is_not_shown() -> None:
    error = refusal("server: " + "hunter2" * 100_000)

    assert "hunter2hunter2hunter2hunter2hunter2hunter2hunter2" not in str(error)


def test_a_variable_is_shown_by_its_name_and_not_by_its_value() -> None:
    text = POOL.replace("max_nodes: 1", 'max_nodes: "${PASSWORD}"')

    error = refusal(text, PASSWORD="hunter2")

    assert 'not the text "${PASSWORD}"' in str(error)
    assert "hunter2" not in str(error)


def test_a_message_contains_no_escape_sequences() -> None:
    text = POOL.replace("provider: c", 'provider: "\\e[2J' + "x" * 10_000 + '"')

    (problem,) = refusal(text).problems

    assert problem.message.startswith('pool "p": unknown provider " [2Jxxx')
    assert len(str(problem)) < 1_000


def test_a_long_line_is_cut_to_the_part_around_the_caret() -> None:
    text = f"a: {{{', '.join(f'k{i}: v' for i in range(500))}, pools: 1}}"

    excerpt = refusal(text + "\n" + POOL.replace("p: {", "p p: {")).problems[-1].excerpt

    assert max(map(len, excerpt.splitlines())) < 110


def test_reading_stops_after_a_thousand_problems() -> None:
    error = refusal("".join(f"wrong_key_{i}: 1\n" for i in range(20_000)))

    assert len(error.problems) == 1_000
    assert str(error).endswith("... and 900 more")
