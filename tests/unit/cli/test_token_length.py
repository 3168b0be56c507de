"""A token that can be guessed is refused wherever it is given."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cli_fleet import make_cli, running_fleet
from click.testing import CliRunner

from navarch.cli.main import navarch
from navarch.config import ConfigError, default_config, parse_config
from navarch.core.access_token import TOKEN_CHARACTERS_MIN

SHORT = "x" * (TOKEN_CHARACTERS_MIN - 1)
LONG = "x" * TOKEN_CHARACTERS_MIN
POOL = "providers: {fake: {type: fake}}\n"
REMEDY = "openssl rand -hex 32"


def test_a_short_token_of_the_file_is_refused_and_one_character_more_is_not() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(f"server: {{auth_token: {SHORT}}}\n{POOL}")
    (problem,) = caught.value.problems
    assert problem.message == "auth_token has 15 characters; a token needs 16 or more"
    assert REMEDY in problem.remedy
    assert SHORT not in str(caught.value)
    assert parse_config(f"server: {{auth_token: {LONG}}}\n{POOL}").server.auth_token is not None


def test_a_short_token_in_a_file_of_its_own_or_in_the_environment_is_refused(
    tmp_path: Path,
) -> None:
    (tmp_path / "token").write_text(f"{SHORT}\n")
    (tmp_path / "navarch.yaml").write_text("server: {auth_token_file: token}\n")
    done = CliRunner().invoke(navarch, ["config", "validate", str(tmp_path / "navarch.yaml")])
    assert done.exit_code != 0
    assert "auth_token_file has 15 characters" in done.output
    assert REMEDY in done.output
    with pytest.raises(ConfigError, match="NAVARCH_AUTH_TOKEN has 15 characters"):
        default_config({"NAVARCH_AUTH_TOKEN": SHORT})


@pytest.mark.parametrize("by_flag", [True, False])
def test_serve_refuses_a_short_token_before_it_opens_anything(
    *, by_flag: bool, tmp_path: Path
) -> None:
    folder = tmp_path / "state"
    flags = ["--auth-token", SHORT] if by_flag else []
    done = CliRunner().invoke(
        navarch,
        ["serve", "--data-dir", str(folder), *flags],
        env={"NAVARCH_AUTH_TOKEN": "" if by_flag else SHORT, "HOME": str(tmp_path)},
    )
    assert done.exit_code == 2
    assert "has 15 characters" in done.output
    assert REMEDY in done.output
    assert not folder.exists()


@pytest.mark.parametrize(("token", "found"), [(SHORT, True), (LONG, False), ("", False)])
def test_doctor_reports_a_short_token(token: str, *, found: bool, tmp_path: Path) -> None:
    with running_fleet() as fleet:
        assert fleet.world.control is not None
        cli = make_cli(
            fleet.world.control.fleet,
            runner=fleet.runner,
            environ={"XDG_CONFIG_HOME": str(tmp_path), "NAVARCH_AUTH_TOKEN": token},
        )
        done = cli.run("doctor -o json")
    findings = [x for x in json.loads(done.stdout) if x["about"] == "token"]
    assert [x["verdict"] for x in findings] == (["bad"] if found else [])


def test_doctor_checks_the_token_without_the_packages_of_the_server(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "sys.modules['numpy'] = None\n"
        "sys.argv = ['navarch', 'doctor']\n"
        "from navarch.cli.main import main\n"
        "main()"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={"HOME": str(tmp_path), "NAVARCH_AUTH_TOKEN": SHORT},
    )
    assert f"NAVARCH_AUTH_TOKEN has {len(SHORT)} characters" in ran.stdout, ran.stderr
