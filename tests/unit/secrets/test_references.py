"""Secrets by reference: what counts as one, what is read, and what never shows."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from navarch.config import ConfigError, parse_config
from navarch.config.loading import load_config
from navarch.config.reference import render_config
from navarch.core.errors import SecretError
from navarch.secrets.reference import (
    Reference,
    SecretReader,
    parse_reference,
    read_reference,
)

HUNTER = "hunter2-hunter2-hunter2"
NOTHING: Mapping[str, str] = {}


@pytest.mark.parametrize(
    "text", ["hunter2", "https://hooks.slack.com/x", "a:b", "FILE:/x", "nvt1.ci.x", "", "vaults:x"]
)
def test_other_texts_are_secrets_themselves(text: str) -> None:
    assert parse_reference(text) is None


def test_a_reference_names_a_place_and_maybe_a_field() -> None:
    assert parse_reference("vault:secret/navarch#token") == Reference(
        scheme="vault", name="secret/navarch", field="token"
    )
    assert parse_reference("file:/run/a#b") == Reference(scheme="file", name="/run/a#b")


def read(text: str, environment: Mapping[str, str] = NOTHING) -> str:
    reference = parse_reference(text)
    assert reference is not None
    return read_reference(reference, environment)


def test_a_file_and_a_variable_are_read_without_white_space_around(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{HUNTER}\n")
    assert read(f"file:{tmp_path}/token") == HUNTER
    assert read("file:~/token", {"HOME": str(tmp_path)}) == HUNTER
    assert read("env:SLACK", {"SLACK": HUNTER}) == HUNTER


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("file:", "names nothing"),
        ("file:token", "not an absolute path"),
        ("file:/nowhere/token", "No such file"),
        ("env:NAVARCH_NOT_SET_ANYWHERE", "is not set"),
        ("vault:secret", "is not like vault:secret/navarch#token"),
        ("vault:secret/x#y", "VAULT_ADDR is not set"),
        ("gcp-sm:token", "is not like"),
        ("azure-kv:token", "is not like"),
        ("azure-kv:https://evil.example/x?y/secrets/z", "is not like"),
    ],
)
def test_a_reference_that_cannot_be_read_states_what_to_correct(text: str, complaint: str) -> None:
    with pytest.raises(SecretError, match=complaint):
        read(text)


def test_a_token_of_vault_is_not_sent_in_clear_text() -> None:
    environment = {"VAULT_ADDR": "http://vault.example:8200", "VAULT_TOKEN": HUNTER}
    with pytest.raises(SecretError, match="is not https"):
        read("vault:secret/x#y", environment)


def test_a_changed_secret_is_noticed_and_the_reader_keeps_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(HUNTER)
    reader = SecretReader()
    assert not reader.in_use
    assert reader(Reference(scheme="file", name=str(file)), NOTHING) == HUNTER
    assert reader.in_use
    assert not reader.changed()
    assert HUNTER not in repr(vars(reader))
    file.write_text("another")
    assert reader.changed()
    file.unlink()
    with pytest.raises(SecretError):
        reader.changed()


CONFIG = """
server:
  auth_token: file:FOLDER/token
  notifier:
    type: webhook
    webhook: {cordon_url: "https://x.example/c", headers: {Authorization: "file:FOLDER/token"}}
alerts:
  channels:
    team: {type: slack, webhook_url: "env:SLACK_URL"}
providers:
  lambda: {type: lambda, api_key: "file:FOLDER/token"}
"""


def test_every_secret_of_a_configuration_may_be_a_reference(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(HUNTER)
    path = tmp_path / "navarch.yaml"
    path.write_text(CONFIG.replace("FOLDER", str(tmp_path)))
    hook = "https://hooks.example/T0/B0"
    config = load_config(path, environment={"SLACK_URL": hook})
    assert config.server.auth_token is not None
    assert config.server.auth_token.reveal() == HUNTER
    assert config.server.notifier.webhook is not None
    assert config.server.notifier.webhook.headers["Authorization"].reveal() == HUNTER
    shown = repr(config) + render_config(config)
    assert HUNTER not in shown
    assert hook not in shown


def test_a_reference_in_the_environment_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(HUNTER)
    path = tmp_path / "navarch.yaml"
    path.write_text("providers: {fake: {type: fake}}\n")
    environment = {"NAVARCH_AUTH_TOKEN": f"file:{tmp_path}/token"}
    config = load_config(path, environment=environment)
    assert config.server.auth_token is not None
    assert config.server.auth_token.reveal() == HUNTER


def test_a_reference_that_cannot_be_read_is_a_problem_of_its_line(tmp_path: Path) -> None:
    path = tmp_path / "navarch.yaml"
    path.write_text(CONFIG.replace("FOLDER", str(tmp_path)))
    with pytest.raises(ConfigError) as caught:
        load_config(path, environment={})
    text = str(caught.value)
    assert "navarch.yaml:3" in text
    assert "No such file" in text
    assert "SLACK_URL: the environment variable is not set" in text


def test_a_text_of_elsewhere_reads_no_secrets(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(HUNTER)
    with pytest.raises(ConfigError, match="references are not read here"):
        parse_config(CONFIG.replace("FOLDER", str(tmp_path)), environment={"SLACK_URL": "x"})


def test_what_a_secret_file_holds_is_never_taken_for_a_reference(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("env:SOME_VARIABLE")
    path = tmp_path / "navarch.yaml"
    path.write_text("server: {auth_token_file: ./token}\nproviders: {fake: {type: fake}}\n")
    config = load_config(path, environment={"SOME_VARIABLE": "another-token-0123"})
    assert config.server.auth_token is not None
    assert config.server.auth_token.reveal() == "env:SOME_VARIABLE"
