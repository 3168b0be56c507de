"""The command line over HTTP and gRPC, to a control plane without running loops."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from cli_fleet import Cli, make_cli
from tests.support.local_api import LocalApi, build_local_api, serve_local_api

from navarch.cli.environment import connect

TOKEN = "hush"


@contextmanager
def a_wire() -> Iterator[tuple[Cli, LocalApi]]:
    with asyncio.Runner() as runner:
        local, life = runner.run(_open())
        cli = make_cli(local.fleet, runner=runner)
        cli.environment = replace(cli.environment, connect=connect)
        try:
            yield cli, local
        finally:
            runner.run(_close(life))


async def _open() -> tuple[LocalApi, "asyncio.Task[None]"]:
    local = build_local_api(token=TOKEN)
    ready = asyncio.Event()

    async def live() -> None:
        async with serve_local_api(local):
            ready.set()
            await asyncio.Event().wait()

    life = asyncio.create_task(live())
    await ready.wait()
    await local.register("edge")
    return local, life


async def _close(life: "asyncio.Task[None]") -> None:
    life.cancel()
    await asyncio.gather(life, return_exceptions=True)


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_http_and_grpc_give_the_same_results(scheme: str) -> None:
    with a_wire() as (cli, local):
        url = local.http_url if scheme == "http" else local.grpc_url

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
    with a_wire() as (cli, local):
        url = local.http_url if scheme == "http" else local.grpc_url
        result = cli.run(["-s", url, "list"])

    assert result.exit_code == 4
    assert "navarch config set-token" in result.stderr


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "grpc://127.0.0.1:1"])
def test_a_missing_server_exits_as_unreachable(url: str) -> None:
    with asyncio.Runner() as runner:
        cli = make_cli(build_local_api().fleet, runner=runner)
        cli.environment = replace(cli.environment, connect=connect)
        result = cli.run(["-s", url, "--timeout", "3s", "list"])

    assert result.exit_code == 5
    assert result.stderr.count("\n") == 1
