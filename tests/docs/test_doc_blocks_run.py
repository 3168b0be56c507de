"""Commands and programs in the documentation run, against a served fleet of simulated machines."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from doc_pages import ROOT, Block, all_blocks, blocks, files, page_name, pages
from shell_blocks import Command, Terminal, commands, navarch_calls
from tests.support.fleet_process import FleetProcess

from navarch.cli.main import navarch

SHELL = ("console", "sh", "hidden")

ENDLESS = "runs until interrupted"
CLOUD = "needs an account at a cloud"
IN_QUICKSTART = "run in tests/e2e/quickstart"
NOT_RUN = {
    "README.md: echo": IN_QUICKSTART,
    "README.md: export NAVARCH_AUTH_TOKEN": IN_QUICKSTART,
    "README.md: navarch": IN_QUICKSTART,
    "README.md: make": "the fleet of `make serve` runs beside this test, which `make test` starts",
    "docs/guides/agent.md: navarch agent": ENDLESS,
    "docs/guides/bring-up.md: navarch logs": "needs machines that are set up over SSH",
    "docs/guides/bring-up.md: navarch pool get": "needs machines that do not come up",
    "docs/guides/bring-up.md: navarch up": CLOUD,
    "docs/guides/health.md: navarch agent scan": "needs a GPU in this machine",
    "docs/guides/health.md: navarch diag training-0 --test nccl": "simulated GPUs are never idle",
    "docs/guides/installation.md": "installs programs on the machine, as root",
    "docs/guides/operations.md: navarch serve": ENDLESS,
    "docs/guides/operations.md: navarch store": "needs a PostgreSQL server; see its contract tests",
    "docs/guides/providers-gcp.md: pip": "needs a package index",
    "docs/guides/providers.md: aws": CLOUD,
    "docs/guides/providers.md: navarch config set-credentials": CLOUD,
    "docs/guides/providers.md: navarch serve": ENDLESS,
    "docs/guides/simulator.md: navarch sim run my-scenario.yaml --seeds": "takes minutes",
    "docs/reference/api.md: grpcurl": "a program that the project does not install",
    "docs/reference/configuration.md: navarch serve": ENDLESS,
    "docs/scheduler/packing.md: .venv/bin/python": "needs the tables of a published trace",
    "docs/tutorial.md: make serve": ENDLESS,
}
"""Commands that are not run, by page and how they begin, with the reason. The list only shrinks."""


def is_run(command: Command) -> bool:
    return not command.label.startswith(tuple(NOT_RUN)) and is_installed(command)


def is_installed(command: Command) -> bool:
    """Whether the program is here; of those that pages use, only `curl` may be missing."""
    return not command.line.startswith("curl ") or shutil.which("curl") is not None


RUNNABLE = [
    page for page in pages() if any(block.language in (*SHELL, "python") for block in blocks(page))
]


def needs_fleet(page: Path) -> bool:
    """Whether a page has commands, or programs that need a server or files."""
    if files(page):
        return True
    return any(
        any(map(is_run, commands(block)))
        if block.language in SHELL
        else block.language == "python" and "localhost:" in block.text
        for block in blocks(page)
    )


WITH_FLEET = [page for page in RUNNABLE if needs_fleet(page)]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """Return a terminal beside the fleet of `make serve`, with machines that boot faster."""
    config = (ROOT / "examples/config/simulated.yaml").read_text("utf-8")
    for slow, fast in {"5s": "1s", "3s": "50ms", "10s": "200ms", "0.1": "0.0"}.items():
        assert f" {slow}\n" in config
        config = config.replace(f" {slow}\n", f" {fast}\n")
    folder = tmp_path / "reader"
    folder.mkdir()
    for name in ("examples", "scenarios"):
        (folder / name).symlink_to(ROOT / name)
    server = FleetProcess(tmp_path, config=config)
    server.start()
    yield Terminal(folder, f"127.0.0.1:{server.port}", f"127.0.0.1:{server.grpc_port}")
    server.kill()


@pytest.mark.parametrize("page", WITH_FLEET, ids=page_name)
def test_blocks_run_in_order(
    page: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks of a page share a folder; those in Python share their names as well."""
    monkeypatch.chdir(terminal.folder)
    names: dict[str, object] = {"__name__": "docs"}
    for name, text in files(page).items():
        (terminal.folder / name).write_text(text, "utf-8")
    for block in blocks(page):
        if block.language == "python":
            program = compile(terminal.translated(block.text), block.place, "exec")
            exec(program, names)
        elif block.language in SHELL:
            for command in filter(is_run, commands(block)):
                terminal.run(command)


@pytest.mark.parametrize(
    "page", [page for page in RUNNABLE if page not in WITH_FLEET], ids=page_name
)
def test_programs_run(page: Path) -> None:
    names: dict[str, object] = {"__name__": "docs"}
    for block in blocks(page):
        if block.language == "python":
            exec(compile(block.text, block.place, "exec"), names)


SHELL_BLOCKS = list(all_blocks("console", "sh"))


@pytest.mark.parametrize("block", SHELL_BLOCKS, ids=lambda block: block.place)
def test_commands_and_their_options_exist(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of commands that are not run."""
    monkeypatch.chdir(tmp_path)
    for name in ("nodes.csv", "pods.csv"):
        Path(name).touch()
    for command in commands(block):
        for arguments in navarch_calls(command):
            parse(navarch, "navarch", arguments, above=None)


def parse(
    command: click.Command, name: str, arguments: list[str], above: click.Context | None
) -> None:
    context = command.make_context(name, list(arguments), parent=above)
    words = [*context._protected_args, *context.args]
    if isinstance(command, click.Group) and words:
        below, under, rest = command.resolve_command(context, words)
        assert under is not None, arguments
        assert below is not None, arguments
        parse(under, below, rest, context)


def test_every_exception_is_needed() -> None:
    labels = [command.label for block in SHELL_BLOCKS for command in commands(block)]
    for begin in NOT_RUN:
        assert any(label.startswith(begin) for label in labels), begin
