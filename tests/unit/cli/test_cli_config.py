"""Sources and storage of servers, tokens and credentials."""

import json
import stat
from pathlib import Path

import pytest
from cli_fleet import Cli, make_cli, running_fleet
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from navarch.cli.main import ENTRIES, navarch
from navarch.cli.output import as_data


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "navarch"


def run_cli(tmp_path: Path, line: str, *, stdin: str | None = None, **environ: str) -> Cli:
    with running_fleet() as fleet:
        assert fleet.world.control is not None
        cli = make_cli(
            fleet.world.control.fleet,
            runner=fleet.runner,
            environ={"XDG_CONFIG_HOME": str(tmp_path), **environ},
        )
        cli.results.append(cli.run(line, stdin=stdin))
    return cli


def test_the_server_comes_from_the_option_then_the_environment_then_localhost(
    tmp_path: Path,
) -> None:
    option = run_cli(tmp_path, "-s http://a:1 status", NAVARCH_SERVER="http://b:2")
    after = run_cli(tmp_path, "status -s http://a:1", NAVARCH_SERVER="http://b:2")
    environ = run_cli(tmp_path, "status", NAVARCH_SERVER="http://b:2")
    default = run_cli(tmp_path, "status")

    urls = [cli.targets[0].url for cli in (option, after, environ, default)]
    assert urls == ["http://a:1", "http://a:1", "http://b:2", "http://localhost:50051"]


def test_a_stored_token_is_sent_to_its_server_only(tmp_path: Path, home: Path) -> None:
    cli = run_cli(tmp_path, "-s http://a:1 config set-token --token-file -", stdin="hush\n")
    assert cli.results[0].exit_code == 0
    assert "hush" not in cli.results[0].output
    assert stat.S_IMODE((home / "credentials.json").stat().st_mode) == 0o600

    assert run_cli(tmp_path, "-s http://a:1 status").targets[0].token == "hush"
    assert run_cli(tmp_path, "-s http://b:2 status").targets[0].token is None
    environ = run_cli(tmp_path, "-s http://a:1 status", NAVARCH_AUTH_TOKEN="other")
    assert environ.targets[0].token == "other"


def test_a_token_is_prompted_for_without_echo(tmp_path: Path) -> None:
    cli = run_cli(tmp_path, "config set-token", stdin="hush\n")

    assert cli.results[0].exit_code == 0
    assert "hush" not in cli.results[0].output


def test_a_credentials_file_that_others_can_read_is_refused_with_the_remedy(
    tmp_path: Path, home: Path
) -> None:
    run_cli(tmp_path, "config set-token --token-file -", stdin="hush\n")
    file = home / "credentials.json"
    file.chmod(0o644)

    cli = run_cli(tmp_path, "status")

    assert cli.results[0].exit_code == 4
    assert cli.results[0].stderr == (f"Error: other users can read {file}; run: chmod 600 {file}\n")
    assert cli.targets == []


def test_the_repr_of_a_target_hides_the_token(tmp_path: Path) -> None:
    cli = run_cli(tmp_path, "status", NAVARCH_AUTH_TOKEN="hush")

    assert "hush" not in repr(cli.targets)


@pytest.mark.parametrize("text", ["{", "[]", '{"tokens": 3}', '{"providers": {"aws": "x"}}'])
def test_a_damaged_credentials_file_is_one_sentence(tmp_path: Path, home: Path, text: str) -> None:
    home.mkdir()
    file = home / "credentials.json"
    file.write_text(text)
    file.chmod(0o600)

    cli = run_cli(tmp_path, "status")

    assert cli.results[0].exit_code == 1
    assert "fix or delete it" in cli.results[0].stderr


def test_credentials_of_several_clouds_are_stored_and_never_printed(
    tmp_path: Path, home: Path
) -> None:
    key = tmp_path / "sa.json"
    key.write_text("{}")
    clis = [
        run_cli(
            tmp_path, "config set-credentials lambda --no-check --api-key-file -", stdin="hush"
        ),
        run_cli(tmp_path, "config set-credentials aws --no-check --profile ops --region us-east-1"),
        run_cli(tmp_path, f"config set-credentials gcp --no-check --project p --key-file {key}"),
        run_cli(tmp_path, "config view"),
    ]

    assert [cli.results[0].exit_code for cli in clis] == [0, 0, 0, 0]
    assert not any("hush" in cli.results[0].output for cli in clis)
    assert "credentials: aws, gcp, lambda" in clis[-1].results[0].stdout
    kept = json.loads((home / "credentials.json").read_text())["providers"]
    assert kept == {
        "lambda": {"api_key": "hush"},
        "aws": {"region": "us-east-1", "profile": "ops"},
        "gcp": {"project": "p", "key_file": str(key)},
    }


def test_the_project_defaults_to_that_of_the_key_file(tmp_path: Path, home: Path) -> None:
    key = tmp_path / "key.json"
    key.write_text('{"type": "service_account", "project_id": "mine"}')
    run_cli(tmp_path, f"config set-credentials gcp --no-check --key-file {key}")
    kept = json.loads((home / "credentials.json").read_text())["providers"]
    assert kept["gcp"] == {"project": "mine", "key_file": str(key)}


@pytest.mark.parametrize("text", ["hush", '{"private_key": "hush"}', '["hush"]'])
def test_a_key_file_without_a_project_is_refused_without_printing_its_content(
    tmp_path: Path, text: str
) -> None:
    key = tmp_path / "key.json"
    key.write_text(text)
    cli = run_cli(tmp_path, f"config set-credentials gcp --no-check --key-file {key}")
    result = cli.results[0]
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
def test_incomplete_credentials_are_bad_usage(tmp_path: Path, line: str) -> None:
    assert run_cli(tmp_path, line).results[0].exit_code == 2


def test_an_empty_secret_is_refused(tmp_path: Path, home: Path) -> None:
    cli = run_cli(tmp_path, "config set-token --token-file -", stdin="\n")

    assert cli.results[0].exit_code == 2
    assert not home.exists()


def test_version_makes_no_request(tmp_path: Path) -> None:
    cli = run_cli(tmp_path, "version -o json")

    assert json.loads(cli.results[0].stdout)["version"] == "0.1.0"
    assert cli.targets == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_every_shell(shell: str) -> None:
    result = CliRunner().invoke(navarch, ["completion", shell])

    assert result.exit_code == 0
    assert "_NAVARCH_COMPLETE" in result.stdout


def test_every_command_has_a_help_page() -> None:
    present = [name for name, entry in ENTRIES.items() if entry.exists()]

    for name in present:
        result = CliRunner().invoke(navarch, [name, "--help"])
        assert result.exit_code == 0, (name, result.output)
    assert {"up", "down", "status", "list", "why", "events", "config"} <= set(present)


def test_the_root_help_imports_no_command() -> None:
    result = CliRunner().invoke(navarch, ["--help"])

    assert result.exit_code == 0
    assert "Get started: navarch up" in result.stdout


def test_data_that_json_cannot_represent_raises() -> None:
    with pytest.raises(NotImplementedError):
        as_data(object())


def test_completion_offers_commands_option_values_and_node_names() -> None:
    with running_fleet() as fleet:
        fleet.run("up --gpus 16 --type h100 --name demo --wait")
        obj = {"obj": fleet.cli.environment}

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


def test_config_validate_and_config_view_accept_a_file(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(GOOD)
    bad.write_text(GOOD.replace("max_nodes", "max_nods"))

    valid = run_cli(tmp_path, f"config validate {good}").results[0]
    shown = run_cli(tmp_path, f"config view {good} -o json").results[0]
    broken = run_cli(tmp_path, f"config validate {bad}").results[0]

    assert valid.exit_code == 0, valid.output
    assert f"{good} is valid" in valid.stdout
    assert json.loads(shown.stdout)["pools"]["training"]["max_nodes"] == 2
    assert broken.exit_code == 1
    assert f"{bad}:3:" in broken.stderr


def test_config_validate_writes_its_verdict_as_json(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(GOOD)
    bad.write_text(GOOD.replace("max_nodes", "max_nods"))

    valid = run_cli(tmp_path, f"config validate {good} -o json").results[0]
    broken = run_cli(tmp_path, f"config validate {bad} -o json").results[0]

    assert json.loads(valid.stdout)["valid"] is True
    assert json.loads(valid.stdout)["pools"] == ["training"]
    assert broken.exit_code == 1
    found = json.loads(broken.stdout)
    assert found["valid"] is False
    assert found["problems"][0]["place"]["line"] == 3


def test_config_validate_counts_stored_credentials(tmp_path: Path) -> None:
    file = tmp_path / "navarch.yaml"
    file.write_text("providers: {lambda: {type: lambda}}\n")
    without = run_cli(tmp_path, f"config validate {file}").results[0]
    run_cli(tmp_path, "config set-credentials lambda --no-check --api-key-file -", stdin="hush")
    stored = run_cli(tmp_path, f"config validate {file}").results[0]

    assert "LAMBDA_API_KEY environment variable is required" in without.stdout
    assert "warning" not in stored.stdout
    assert "hush" not in stored.output
