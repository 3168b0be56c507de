"""`navarch held release`: a whole pool is released only after confirmation."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pytest
from cli_fleet import Cli, make_cli

from navarch.core.disruption import Deferred, DeferredBy
from navarch.core.fleet import Change
from navarch.core.ids import NodeId
from navarch.core.node import Retirement
from navarch.core.ownership import Cluster
from navarch.core.records import evolve
from navarch.ports.api import FleetApi
from navarch.service.fleet_health import HeldService
from navarch.service.views import pool_view
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore
from navarch.testing.worlds import NOW, a_node, a_pool

HELD = Deferred(
    action="replace", reason="XID 79", because="budget", by=DeferredBy.BUDGET, since=NOW
)
NODES = (NodeId("training-0"), NodeId("training-1"))
QUESTION = "Run the held actions of 2 nodes in pool training now?"


@contextmanager
def two_held_nodes() -> Iterator[tuple[Cli, MemoryStore]]:
    store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
    change = Change(pools=[a_pool()], nodes=[a_node(name, held=HELD) for name in NODES])

    async def begin() -> HeldService:
        await store.commit(change, based_on=0)
        return HeldService(SimClock(), store)

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        service = cast("FleetApi", runner.run(begin()))
        yield make_cli(service, runner=runner), store


def released(store: MemoryStore) -> list[NodeId]:
    held = {name: store.fleet().nodes[name].held for name in NODES}
    return [name for name, each in held.items() if each is not None and each.released]


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
def test_a_pool_stays_held_without_a_yes(answer: str) -> None:
    with two_held_nodes() as (cli, store):
        refused = cli.run("held release --pool training --reason checked", stdin=answer)
        assert QUESTION in refused.output
        assert refused.exit_code != 0
        assert released(store) == []


@pytest.mark.parametrize(("flag", "answer"), [("", "y\n"), (" --yes", "")])
def test_a_pool_is_released_after_a_yes(flag: str, answer: str) -> None:
    with two_held_nodes() as (cli, store):
        done = cli.run(f"held release --pool training --reason checked{flag}", stdin=answer)
        assert done.exit_code == 0
        assert (QUESTION in done.output) is not bool(flag)
        assert released(store) == list(NODES)


def test_single_nodes_are_released_without_a_question() -> None:
    with two_held_nodes() as (cli, store):
        done = cli.run("held release training-1 --reason checked")
        assert done.exit_code == 0
        assert released(store) == [NodeId("training-1")]


def test_the_pool_shows_what_is_held_back_and_why() -> None:
    nodes = [a_node(name, held=HELD) for name in NODES]
    done = evolve(HELD, released="checked")
    assert pool_view(a_pool(size=2), nodes).note == "2 actions held back: budget"
    assert pool_view(a_pool(size=1), [a_node(NODES[0], held=done)]).note == ""
    leaving = a_node(NODES[1], held=HELD, retiring=Retirement(reason="drift"))
    assert pool_view(a_pool(size=1), [a_node(NODES[0]), leaving]).note == ""
