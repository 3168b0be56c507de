"""Variables, secrets and files."""

import copy
import os
import pickle
from pathlib import Path

import pytest

from navarch.config import ConfigError, FileText, Secret, default_config, load_config, parse_config
from navarch.config.context import BadVariable, interpolate
from navarch.config.provider import AwsConfig, GcpConfig, LambdaConfig

POOL = "providers: {c: {type: fake}}\npools: {p: {provider: c, instance_type: x, max_nodes: 1}}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${A}", "one"),
        ("x${A}y${A}", "xoneyone"),
        ("${B:-two}", "two"),
        ("${EMPTY:-two}", "two"),
        ("${EMPTY}", ""),
        ("${B:-}", ""),
        ("${B:-a:-b}", "a:-b"),
        ("$${A}", "${A}"),
        ("$A ${A", None),
        ("$A", "$A"),
        ("${B}", None),
        ("${1}", None),
        ("${A-x}", None),
        ("${}", None),
    ],
)
def test_variables_are_expanded_or_refused(text: str, expected: str | None) -> None:
    value = interpolate(text, {"A": "one", "EMPTY": ""})

    assert (None if isinstance(value, BadVariable) else value) == expected


def test_a_variable_takes_the_type_it_looks_like_unless_quoted() -> None:
    text = POOL.replace("max_nodes: 1", 'max_nodes: "1"')
    with pytest.raises(ConfigError):
        parse_config(text)
    block = """\
providers: {c: {type: fake}}
pools:
  p:
    provider: c
    instance_type: ${TYPE}
    max_nodes: ${MAX:-7}
    health:
      auto_replace: ${REPLACE}
"""
    config = parse_config(block, environment={"TYPE": "h100-8x", "REPLACE": "false"})

    pool = config.pools["p"]
    assert (pool.instance_type, pool.max_nodes) == ("h100-8x", 7)
    assert pool.health.auto_replace is False


def test_an_unset_variable_is_an_error_at_its_place() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(POOL + 'server:\n  external_address: "http://${HOST}:1"\n', source="f")

    assert str(caught.value.problems[0]) == (
        "f:4:29: the environment variable HOST is not set\n"
        '  4 |   external_address: "http://${HOST}:1"\n'
        "    |                             ^\n"
        "  help: set it, or write ${HOST:-default}; for a plain ${HOST} write $${HOST}"
    )


def test_setup_commands_keep_their_variables_for_the_shell() -> None:
    block = """\
providers: {c: {type: fake}}
defaults: {ssh_private_key_path: ~/.ssh/key}
pools:
  p: {provider: c, instance_type: x, max_nodes: 1, setup_commands: ["echo ${WHO:-me} $${X}"]}
"""
    pool = parse_config(block, environment={"HOME": "/home/me"}).pools["p"]

    assert pool.setup_commands == ("echo ${WHO:-me} $${X}",)
    assert pool.ssh_private_key_path == "/home/me/.ssh/key"


def test_a_secret_is_masked_everywhere() -> None:
    secret = Secret("hunter2hunter2hunter2")

    shown = f"{secret} {secret!r} {[secret]} {secret:>10} %s" % secret
    assert "hunter2hunter2hunter2" not in shown
    assert secret.reveal() == "hunter2hunter2hunter2"
    assert secret == Secret("hunter2hunter2hunter2") != Secret("hunter3")
    assert copy.deepcopy(secret) == secret
    with pytest.raises(TypeError):
        pickle.dumps(secret)


def test_the_repr_of_a_configuration_masks_its_secrets() -> None:
    text = (
        "server:\n  auth_token: hunter2hunter2hunter2\n  notifier:\n    type: webhook\n"
        "    webhook: {cordon_url: 'http://x', headers: {Authorization: Bearer hunter2hunter2}}\n"
    )
    config = parse_config(text + POOL)

    assert config.server.auth_token == Secret("hunter2hunter2hunter2")
    assert "hunter2hunter2" not in repr(config)


def test_a_secret_file_is_relative_to_the_configuration() -> None:
    opened: list[Path] = []

    def read_file(path: Path) -> FileText:
        opened.append(path)
        return FileText(text="hunter2hunter2hunter2\n", readable_by_others=True)

    text = "server: {auth_token_file: keys/token}\n" + POOL
    config = parse_config(text, source="etc/navarch.yaml", read_file=read_file)

    assert opened == [Path("etc/keys/token")]
    assert config.server.auth_token == Secret("hunter2hunter2hunter2")
    (warning,) = config.warnings
    assert warning.message == "auth_token_file: every user of this machine can read keys/token"
    assert warning.remedy == "chmod 600 keys/token"


@pytest.mark.parametrize(
    ("held", "message"),
    [
        (
            FileNotFoundError(2, "No such file or directory"),
            "cannot read t: No such file or directory",
        ),
        (PermissionError(13, "Permission denied"), "cannot read t: Permission denied"),
        (ValueError("embedded null byte"), "cannot read t: it is not text"),
        (FileText(text=""), None),
        (FileText(text="two\nlines"), None),
    ],
)
def test_an_invalid_secret_file_is_an_error(
    held: Exception | FileText, message: str | None
) -> None:
    def read_file(_path: Path) -> FileText:
        if isinstance(held, Exception):
            raise held
        return held

    with pytest.raises(ConfigError) as caught:
        parse_config("server: {auth_token_file: t}\n" + POOL, source="f", read_file=read_file)

    (problem,) = caught.value.problems
    assert problem.place is not None
    assert (problem.place.line, problem.place.column) == (1, 27)
    if message:
        assert problem.message == f"auth_token_file: {message}"


def test_the_token_of_the_environment_is_used_if_the_file_has_none() -> None:
    environment = {"NAVARCH_AUTH_TOKEN": "hunter2hunter2hunter2"}

    assert parse_config(POOL, environment=environment).server.auth_token == Secret(
        "hunter2hunter2hunter2"
    )
    assert default_config(environment).server.auth_token == Secret("hunter2hunter2hunter2")
    written = parse_config(
        "server: {auth_token: mine-is-long-enough}\n" + POOL, environment=environment
    )
    assert written.server.auth_token == Secret("mine-is-long-enough")
    with pytest.raises(ConfigError, match="NAVARCH_AUTH_TOKEN holds a space"):
        default_config({"NAVARCH_AUTH_TOKEN": "hunter2hunter2hunter2\n"})


def test_the_api_key_comes_from_the_variable_the_file_names() -> None:
    text = (
        "server: {external_address: https://n.com}\n"
        "providers: {c: {type: lambda, api_key_env: MY_KEY, ssh_key: ops}}\n"
        "pools: {p: {provider: c, region: us-east-1, instance_type: x, max_nodes: 1}}\n"
    )

    provider = parse_config(text, environment={"MY_KEY": "hunter2hunter2hunter2"}).providers["c"]
    assert isinstance(provider, LambdaConfig)
    assert provider.api_key == Secret("hunter2hunter2hunter2")

    (warning,) = parse_config(text).warnings
    assert warning.message == 'provider "c": MY_KEY environment variable is required'


def test_a_file_is_loaded_with_its_secrets_and_absolute_paths(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hunter2hunter2hunter2\n")
    os.chmod(tmp_path / "token", 0o600)
    file = tmp_path / "navarch.yaml"
    file.write_text("server: {auth_token_file: token, data_dir: state}\n" + POOL)

    config = load_config(file)

    assert config.server.auth_token == Secret("hunter2hunter2hunter2")
    assert config.server.data_dir == str(tmp_path / "state")
    assert config.warnings == ()
    os.chmod(tmp_path / "token", 0o644)
    assert len(load_config(file).warnings) == 1


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda _: None, "No such file or directory"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: path.write_bytes(b"a: 1\n\xff"), "line 2 is not UTF-8 text"),
    ],
)
def test_an_unreadable_file_is_one_problem(tmp_path: Path, make: object, reason: str) -> None:
    file = tmp_path / "navarch.yaml"
    assert callable(make)
    make(file)

    with pytest.raises(ConfigError) as caught:
        load_config(file)

    assert str(caught.value) == f"reading config: 1 problem\n\n{file}: {reason}"


def test_a_byte_order_mark_is_accepted() -> None:
    assert parse_config("\ufeff" + POOL).pools["p"].max_nodes == 1


def test_stored_credentials_become_providers_without_a_file() -> None:
    stored = {
        "lambda": {"api_key": "hush", "endpoint": "http://127.0.0.1:1"},
        "aws": {"profile": "ops", "region": "eu-central-1"},
        "gcp": {"project": "${mine}", "key_file": "/key.json"},
    }

    config = default_config({"LAMBDA_API_KEY": "hush"}, stored)

    assert config.warnings == ()
    assert config.pools == {}
    assert config.providers == {
        "aws": AwsConfig(name="aws", region="eu-central-1"),
        "gcp": GcpConfig(name="gcp", project="${mine}"),
        "lambda": LambdaConfig(
            name="lambda", api_key=Secret("hush"), endpoint="http://127.0.0.1:1"
        ),
    }


@pytest.mark.parametrize(
    ("cloud", "fields", "named"),
    [
        ("lambda", {}, "API key is missing"),
        ("gcp", {"key_file": "/key.json"}, "project is required"),
        ("aws", {"endpoint": "nowhere"}, 'not "nowhere"'),
        ("azure", {"key": "hush"}, "unknown provider type"),
    ],
)
def test_stored_credentials_that_cannot_be_used_are_named_and_leave_the_others(
    cloud: str, fields: dict[str, str], named: str
) -> None:
    stored = {cloud: fields, "aws" if cloud != "aws" else "gcp": {"project": "p"}}

    config = default_config({}, stored)

    (warning,) = config.warnings
    assert f"stored credentials of {cloud}" in str(warning)
    assert named in str(warning)
    assert "hush" not in str(warning)
    assert cloud not in config.providers
    assert len(config.providers) == 1


def test_the_external_address_comes_from_the_file_then_the_environment() -> None:
    environment = {"NAVARCH_EXTERNAL_ADDRESS": "https://env.example"}

    def address(text: str) -> str | None:
        return parse_config(text + POOL, environment=environment).server.external_address

    assert address("server: {external_address: https://file.example}\n") == "https://file.example"
    assert address("server: {}\n") == "https://env.example"
    assert address("") == "https://env.example"
    assert default_config(environment).server.external_address == "https://env.example"


def test_an_external_address_of_the_environment_that_is_no_url_is_refused() -> None:
    with pytest.raises(ConfigError, match="environment variable NAVARCH_EXTERNAL_ADDRESS must be"):
        parse_config(POOL, environment={"NAVARCH_EXTERNAL_ADDRESS": "example.com"})
