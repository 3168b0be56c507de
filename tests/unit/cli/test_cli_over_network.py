"""The command line over HTTP and gRPC, to a control plane without running loops."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from cli_fleet import Cli, make_cli

from navarch.cli.environment import connect
from navarch.testing.doors import Doors, build_doors, open_doors

TOKEN = "hush"


@contextmanager
def a_wire() -> Iterator[tuple[Cli, Doors]]:
    with asyncio.Runner() as runner:
        doors, life = runner.run(_open())
        cli = make_cli(doors.fleet, runner=runner)
        cli.environment = replace(cli.environment, connect=connect)
        try:
            yield cli, doors
        finally:
            runner.run(_close(life))


async def _open() -> tuple[Doors, "asyncio.Task[None]"]:
    doors = build_doors(token=TOKEN)
    ready = asyncio.Event()

    async def live() -> None:
        async with open_doors(doors):
            ready.set()
            await asyncio.Event().wait()

    life = asyncio.create_task(live())
    await ready.wait()
    await doors.register("edge")
    return doors, life


async def _close(life: "asyncio.Task[None]") -> None:
    life.cancel()
    await asyncio.gather(life, return_exceptions=True)


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_http_and_grpc_give_the_same_results(scheme: str) -> None:
    with a_wire() as (cli, doors):
        url = doors.http_url if scheme == "http" else doors.grpc_url

        def run_cli(line: str) -> tuple[int, str]:
            result = cli.run(["-s", url, "--token", TOKEN, *line.split()])
            return result.exit_code, result.output

        assert run_cli("cordon edge --reason fans") == (0, "Node edge cordoned\n")
        code, text = run_cli("get edge")
        assert code == 0
        assert "Cordoned:       fans" in text
        assert run_cli("get nope") == (3, "Error: node not found: nope\n")
        assert run_cli("uncordon edge")[0] == 0
        assert run_cli("uncordon edge")[0] == 4
        assert run_cli("why edge")[1].startswith("node edge is ready")
        assert run_cli("up --gpus 8 --type b300 --name x")[0] == 2
        assert run_cli("list -o yaml")[1].startswith("- id: edge\n")


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_requests_without_the_token_are_refused(scheme: str) -> None:
    with a_wire() as (cli, doors):
        url = doors.http_url if scheme == "http" else doors.grpc_url
        result = cli.run(["-s", url, "list"])

    assert result.exit_code == 4
    assert "navarch config set-token" in result.stderr


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "grpc://127.0.0.1:1"])
def test_a_missing_server_exits_as_unreachable(url: str) -> None:
    with asyncio.Runner() as runner:
        cli = make_cli(build_doors().fleet, runner=runner)
        cli.environment = replace(cli.environment, connect=connect)
        result = cli.run(["-s", url, "--timeout", "3s", "list"])

    assert result.exit_code == 5
    assert result.stderr.count("\n") == 1
