"""The command line over a real wire, to a control plane without loops."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from cli_world import Desk, a_desk

from navarch.cli.environment import connect
from navarch.testing.doors import Doors, build_doors, open_doors

TOKEN = "hush"


@contextmanager
def a_wire() -> Iterator[tuple[Desk, Doors]]:
    with asyncio.Runner() as runner:
        doors, life = runner.run(_open())
        desk = a_desk(doors.fleet, runner=runner)
        desk.environment = replace(desk.environment, connect=connect)
        try:
            yield desk, doors
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
def test_both_doors_give_the_same_answers(scheme: str) -> None:
    with a_wire() as (desk, doors):
        url = doors.http_url if scheme == "http" else doors.grpc_url

        def typed(line: str) -> tuple[int, str]:
            result = desk.type(["-s", url, "--token", TOKEN, *line.split()])
            return result.exit_code, result.output

        assert typed("cordon edge --reason fans") == (0, "Node edge cordoned\n")
        code, text = typed("get edge")
        assert code == 0
        assert "Cordoned:       fans" in text
        assert typed("get nope") == (3, "Error: node not found: nope\n")
        assert typed("uncordon edge")[0] == 0
        assert typed("uncordon edge")[0] == 4
        assert typed("why edge")[1].startswith("node edge is ready")
        assert typed("up --gpus 8 --type b300 --name x")[0] == 2
        assert typed("list -o yaml")[1].startswith("- id: edge\n")


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_without_the_token_nothing_is_allowed(scheme: str) -> None:
    with a_wire() as (desk, doors):
        url = doors.http_url if scheme == "http" else doors.grpc_url
        result = desk.type(["-s", url, "list"])

    assert result.exit_code == 4
    assert "navarch config set-token" in result.stderr


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "grpc://127.0.0.1:1"])
def test_where_no_server_is_the_code_says_so(url: str) -> None:
    with asyncio.Runner() as runner:
        desk = a_desk(build_doors().fleet, runner=runner)
        desk.environment = replace(desk.environment, connect=connect)
        result = desk.type(["-s", url, "--timeout", "3s", "list"])

    assert result.exit_code == 5
    assert result.stderr.count("\n") == 1
