"""Every error becomes one sentence and an exit code."""

import asyncio
from dataclasses import replace

import pytest
from cli_fleet import make_cli, running_fleet
from click.testing import CliRunner

from navarch.cli.commands import Entry
from navarch.cli.errors import CommandError, describe_error
from navarch.cli.main import navarch
from navarch.core.errors import (
    ConflictError,
    CredentialError,
    InvalidError,
    NavarchError,
    NotFoundError,
    NotPossibleError,
    StoreError,
    TransientError,
    UnauthenticatedError,
    UnreachableError,
)
from navarch.ports.api import FleetApi, FleetStatus


class Broken:
    """A fleet that raises an error on every request."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    async def status(self) -> FleetStatus:
        raise self._error


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (StoreError("disk full"), 1, "disk full"),
        (ConflictError("moved"), 1, "moved; changed concurrently; try again"),
        (InvalidError("gpus: too many"), 2, "gpus: too many"),
        (NotFoundError("node not found: x"), 3, "node not found: x"),
        (NotPossibleError("node x is gone"), 4, "node x is gone"),
        (CredentialError("key expired"), 4, "key expired"),
        (UnauthenticatedError("unauthorized"), 4, "navarch config set-token"),
        (UnreachableError("no route"), 5, "is `navarch serve` running there"),
        (TransientError("busy"), 5, "busy; try again"),
        (ConnectionRefusedError(111, "Connection refused"), 5, "the server cannot be reached"),
        (TimeoutError(), 5, "the server did not respond in time"),
        (PermissionError(13, "Permission denied"), 1, "Permission denied"),
        (ExceptionGroup("tasks", [NotFoundError("node not found: x")]), 3, "node not found: x"),
        (
            ZeroDivisionError("oops"),
            1,
            "unexpected ZeroDivisionError: oops; run again with --debug for a traceback",
        ),
        (NotFoundError("two\nlines\x1b[2J"), 3, "two lines [2J"),
    ],
)
def test_an_error_becomes_one_sentence_and_a_code(
    error: BaseException, code: int, words: str
) -> None:
    with asyncio.Runner() as runner:
        api: FleetApi = Broken(error)  # type: ignore[assignment]
        result = make_cli(api, runner=runner).run("status")

    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_debug_shows_the_traceback_of_an_unexpected_error() -> None:
    with asyncio.Runner() as runner:
        api: FleetApi = Broken(ZeroDivisionError("oops"))  # type: ignore[assignment]
        result = make_cli(api, runner=runner).run("status --debug")

    assert "Traceback" in result.stderr
    assert result.exit_code == 1


def test_a_server_that_never_responds_is_unreachable() -> None:
    class Mute:
        async def status(self) -> FleetStatus:
            await asyncio.Event().wait()
            raise AssertionError

    with running_fleet() as fleet:
        api: FleetApi = Mute()  # type: ignore[assignment]
        cli = make_cli(api, runner=fleet.runner)
        before = fleet.runner.get_loop().time()
        result = cli.run("--timeout 7s status")
        waited = fleet.runner.get_loop().time() - before

    assert result.exit_code == 5
    assert waited == pytest.approx(7)


def test_the_output_format_is_checked_before_any_request() -> None:
    with running_fleet() as fleet:
        result = fleet.run("list -o xml")

    assert result.exit_code == 2
    assert "unsupported output format: xml (valid: table, wide, name, json, yaml)" in result.stderr
    assert fleet.cli.targets == []


def test_a_mistyped_command_suggests_similar_ones() -> None:
    result = CliRunner().invoke(navarch, ["lst"])

    assert result.exit_code == 2
    assert "No such command 'lst'. Did you mean list?" in result.stderr


def test_an_exception_group_is_described_by_its_first_error() -> None:
    inner = ExceptionGroup("inner", [NotPossibleError("no")])

    assert describe_error(ExceptionGroup("outer", [inner])).code == 4


class ConfigError(NavarchError):
    """An error with the name of the configuration's error class."""


def test_a_configuration_error_keeps_its_line_breaks() -> None:
    failure = describe_error(ConfigError("a.yaml:3:5: unknown key\n  poools:\n  ^\x1b[2J"))

    assert str(failure) == "a.yaml:3:5: unknown key\n  poools:\n  ^ [2J"
    assert failure.code == 1


def test_a_missing_dependency_names_the_extra_to_install() -> None:
    entry = Entry(
        module="navarch.cli.main",
        attribute="navarch",
        help="",
        section="",
        extra="server",
    )
    absent = replace(entry, module="navarch.cli.no_such_command")

    assert entry.load("x") is navarch
    assert not absent.exists()
    with pytest.raises(CommandError, match=r"pip install 'navarch\[server\]'"):
        absent.load("serve")


@pytest.mark.parametrize(
    ("package", "extra"),
    [("cel_expr_python", "server"), ("rich.table", "cli"), ("google.cloud.compute_v1", "gcp")],
)
def test_a_missing_package_is_an_error_that_names_the_extra(package: str, extra: str) -> None:
    failure = describe_error(ModuleNotFoundError(f"No module named '{package}'", name=package))
    assert f"pip install 'navarch[{extra}]'" in str(failure)
    ours = describe_error(ModuleNotFoundError("No module named 'navarch.x'", name="navarch.x"))
    assert "unexpected" in str(ours), "a defect of the program is not an extra"
