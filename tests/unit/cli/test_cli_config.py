"""Servers, tokens, credentials: where they come from and where they are kept."""

import json
import stat
from pathlib import Path

import pytest
from cli_world import Desk, a_desk, a_place
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from navarch.cli.main import ENTRIES, navarch
from navarch.cli.output import as_data


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "navarch"


def at_desk(tmp_path: Path, line: str, *, stdin: str | None = None, **environ: str) -> Desk:
    with a_place() as place:
        assert place.world.control is not None
        desk = a_desk(
            place.world.control.fleet,
            runner=place.runner,
            environ={"XDG_CONFIG_HOME": str(tmp_path), **environ},
        )
        desk.results.append(desk.type(line, stdin=stdin))
    return desk


def test_the_server_is_told_else_from_the_environment_else_local(tmp_path: Path) -> None:
    told = at_desk(tmp_path, "-s http://a:1 status", NAVARCH_SERVER="http://b:2")
    after = at_desk(tmp_path, "status -s http://a:1", NAVARCH_SERVER="http://b:2")
    environ = at_desk(tmp_path, "status", NAVARCH_SERVER="http://b:2")
    default = at_desk(tmp_path, "status")

    urls = [desk.targets[0].url for desk in (told, after, environ, default)]
    assert urls == ["http://a:1", "http://a:1", "http://b:2", "http://localhost:50051"]


def test_a_kept_token_goes_to_its_server_and_to_no_other(tmp_path: Path, home: Path) -> None:
    desk = at_desk(tmp_path, "-s http://a:1 config set-token --token-file -", stdin="hush\n")
    assert desk.results[0].exit_code == 0
    assert "hush" not in desk.results[0].output
    assert stat.S_IMODE((home / "credentials.json").stat().st_mode) == 0o600

    assert at_desk(tmp_path, "-s http://a:1 status").targets[0].token == "hush"
    assert at_desk(tmp_path, "-s http://b:2 status").targets[0].token is None
    environ = at_desk(tmp_path, "-s http://a:1 status", NAVARCH_AUTH_TOKEN="other")
    assert environ.targets[0].token == "other"


def test_a_token_is_asked_for_and_not_shown(tmp_path: Path) -> None:
    desk = at_desk(tmp_path, "config set-token", stdin="hush\n")

    assert desk.results[0].exit_code == 0
    assert "hush" not in desk.results[0].output


def test_credentials_that_others_can_read_are_refused_with_the_remedy(
    tmp_path: Path, home: Path
) -> None:
    at_desk(tmp_path, "config set-token --token-file -", stdin="hush\n")
    file = home / "credentials.json"
    file.chmod(0o644)

    desk = at_desk(tmp_path, "status")

    assert desk.results[0].exit_code == 4
    assert desk.results[0].stderr == (
        f"Error: other users can read {file}; run: chmod 600 {file}\n"
    )
    assert desk.targets == []


def test_a_token_in_a_target_is_not_shown_by_accident(tmp_path: Path) -> None:
    desk = at_desk(tmp_path, "status", NAVARCH_AUTH_TOKEN="hush")

    assert "hush" not in repr(desk.targets)


@pytest.mark.parametrize("text", ["{", "[]", '{"tokens": 3}', '{"providers": {"aws": "x"}}'])
def test_a_damaged_file_is_a_sentence(tmp_path: Path, home: Path, text: str) -> None:
    home.mkdir()
    file = home / "credentials.json"
    file.write_text(text)
    file.chmod(0o600)

    desk = at_desk(tmp_path, "status")

    assert desk.results[0].exit_code == 1
    assert "fix or delete it" in desk.results[0].stderr


def test_credentials_of_clouds_are_kept_side_by_side_and_never_printed(
    tmp_path: Path, home: Path
) -> None:
    key = tmp_path / "sa.json"
    key.write_text("{}")
    desks = [
        at_desk(
            tmp_path, "config set-credentials lambda --no-check --api-key-file -", stdin="hush"
        ),
        at_desk(tmp_path, "config set-credentials aws --no-check --profile ops --region us-east-1"),
        at_desk(tmp_path, f"config set-credentials gcp --no-check --project p --key-file {key}"),
        at_desk(tmp_path, "config view"),
    ]

    assert [desk.results[0].exit_code for desk in desks] == [0, 0, 0, 0]
    assert not any("hush" in desk.results[0].output for desk in desks)
    assert "credentials: aws, gcp, lambda" in desks[-1].results[0].stdout
    kept = json.loads((home / "credentials.json").read_text())["providers"]
    assert kept == {
        "lambda": {"api_key": "hush"},
        "aws": {"region": "us-east-1", "profile": "ops"},
        "gcp": {"project": "p", "key_file": str(key)},
    }


def test_a_key_file_names_the_project_that_pays(tmp_path: Path, home: Path) -> None:
    key = tmp_path / "key.json"
    key.write_text('{"type": "service_account", "project_id": "mine"}')
    at_desk(tmp_path, f"config set-credentials gcp --no-check --key-file {key}")
    kept = json.loads((home / "credentials.json").read_text())["providers"]
    assert kept["gcp"] == {"project": "mine", "key_file": str(key)}


@pytest.mark.parametrize("text", ["hush", '{"private_key": "hush"}', '["hush"]'])
def test_a_key_file_that_names_no_project_is_refused_without_a_word_of_it(
    tmp_path: Path, text: str
) -> None:
    key = tmp_path / "key.json"
    key.write_text(text)
    desk = at_desk(tmp_path, f"config set-credentials gcp --no-check --key-file {key}")
    result = desk.results[0]
    assert result.exit_code != 0
    assert str(key) in result.output
    assert "hush" not in result.output


@pytest.mark.parametrize(
    "line",
    [
        "config set-credentials aws",
        "config set-credentials aws --profile a --access-key-id b",
        "config set-credentials gcp",
        "config set-credentials gcp --project p --key-file missing.json",
        "config set-credentials azure",
        "config validate missing.yaml",
    ],
)
def test_half_said_settings_are_bad_usage(tmp_path: Path, line: str) -> None:
    assert at_desk(tmp_path, line).results[0].exit_code == 2


def test_an_empty_secret_is_refused(tmp_path: Path, home: Path) -> None:
    desk = at_desk(tmp_path, "config set-token --token-file -", stdin="\n")

    assert desk.results[0].exit_code == 2
    assert not home.exists()


def test_version_asks_nobody(tmp_path: Path) -> None:
    desk = at_desk(tmp_path, "version -o json")

    assert json.loads(desk.results[0].stdout)["version"] == "0.1.0"
    assert desk.targets == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_its_script(shell: str) -> None:
    result = CliRunner().invoke(navarch, ["completion", shell])

    assert result.exit_code == 0
    assert "_NAVARCH_COMPLETE" in result.stdout


def test_every_command_that_exists_has_a_help_page() -> None:
    present = [name for name, entry in ENTRIES.items() if entry.exists()]

    for name in present:
        result = CliRunner().invoke(navarch, [name, "--help"])
        assert result.exit_code == 0, (name, result.output)
    assert {"up", "down", "status", "list", "why", "events", "config"} <= set(present)


def test_the_help_of_the_root_loads_no_command() -> None:
    result = CliRunner().invoke(navarch, ["--help"])

    assert result.exit_code == 0
    assert "Get started: navarch up" in result.stdout


def test_data_without_a_form_in_json_is_a_bug_and_not_silence() -> None:
    with pytest.raises(NotImplementedError):
        as_data(object())


def test_the_tab_key_offers_commands_words_and_the_names_of_nodes() -> None:
    with a_place() as place:
        place.type("up --gpus 16 --type h100 --name demo --wait")
        obj = {"obj": place.desk.environment}

        def offered(words: list[str], typed: str) -> list[str]:
            completing = ShellComplete(navarch, obj, "navarch", "_NAVARCH_COMPLETE")
            return [item.value for item in completing.get_completions(words, typed)]

        assert offered([], "cor") == ["cordon"]
        assert offered(["list", "--status"], "d") == ["draining"]
        assert offered(["cordon"], "demo-") == ["demo-0", "demo-1"]
        assert offered(["pool", "scale"], "d") == ["demo"]


GOOD = """\
providers: {sim: {type: fake, gpu_count: 8}}
pools:
  training: {provider: sim, instance_type: h100-8x, min_nodes: 1, max_nodes: 2}
"""


def test_a_file_is_validated_and_shown(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(GOOD)
    bad.write_text(GOOD.replace("max_nodes", "max_nods"))

    valid = at_desk(tmp_path, f"config validate {good}").results[0]
    shown = at_desk(tmp_path, f"config view {good} -o json").results[0]
    broken = at_desk(tmp_path, f"config validate {bad}").results[0]

    assert valid.exit_code == 0, valid.output
    assert f"{good} is valid" in valid.stdout
    assert json.loads(shown.stdout)["pools"]["training"]["max_nodes"] == 2
    assert broken.exit_code == 1
    assert f"{bad}:3:" in broken.stderr
