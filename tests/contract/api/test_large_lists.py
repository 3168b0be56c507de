"""ListNodes of a large fleet: one pass, in slices between which everything else runs."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import thread_time
from typing import Any

import pytest
from google.protobuf import json_format
from tests.support.local_api import build_local_api, call_app

from navarch.api.connect.nodes import nodes_proto
from navarch.core.fleet import Change
from navarch.core.ids import NodeId
from navarch.core.instance import Gpu, Inventory
from navarch.core.node import Node, Phase
from navarch.ports.api import Query
from navarch.sim.kernel.clock import InlineOffload, SeededEntropy
from navarch.stores.sqlite import SqliteStore
from navarch.wire.reference import navarch_pb2 as pb

NODES = 2000
RATIO_MAX = 3.2
"""The CPU time of a list, over that of encoding the same nodes: 2 in one pass. Page after page and
node after node it was above 4, and grew with the fleet."""
STALL_S_MAX = 0.05
LIST = "/navarch.ControlPlaneService/ListNodes"
AT = datetime(2026, 11, 19, tzinfo=UTC)


def node(number: int) -> Node:
    return Node(
        id=NodeId(f"node-{number}"),
        pool=None,
        phase=Phase.READY,
        since=AT,
        created_at=AT,
        registered_at=AT,
    )


def inventory(name: str) -> Inventory:
    gpus = [Gpu(index=i, uuid=f"GPU-{name}-{i}", name="NVIDIA H100 80GB HBM3") for i in range(8)]
    return Inventory(hostname=name, gpus=tuple(gpus), labels={"rack": "r1"})


async def large_fleet(folder: Path) -> SqliteStore:
    store = SqliteStore.open(folder, InlineOffload(), SeededEntropy("1"))
    nodes = [node(number) for number in range(NODES)]
    held = {each.id: inventory(each.id) for each in nodes}
    await store.commit(Change(nodes=nodes, inventories=held), based_on=store.fleet().revision)
    return store


def seconds(call: Callable[[], object]) -> float:
    began = thread_time()
    call()
    return thread_time() - began


async def worst_stall(call: asyncio.Task[Any]) -> float:
    """Return the longest CPU time of this thread between two turns of the loop during a call."""
    worst, before = 0.0, thread_time()
    while not call.done():
        await asyncio.sleep(0)
        now = thread_time()
        worst, before = max(worst, now - before), now
    return worst


def test_a_list_costs_little_more_than_its_encoding(tmp_path: Path) -> None:
    async def story() -> None:
        store = await large_fleet(tmp_path)
        local = build_local_api(store=store)
        details = [x async for part in local.fleet.list_node_details(Query()) for x in part]
        encoding = min(seconds(lambda: nodes_proto(details)) for _ in range(5))
        spent, answers = [], []
        for _ in range(5):
            began = thread_time()
            answers.append(
                await call_app(local.app, "POST", LIST, b"", content_type="application/proto")
            )
            spent.append(thread_time() - began)
        store.close()
        assert len(pb.ListNodesResponse.FromString(answers[0].body).nodes) == NODES
        assert min(spent) < RATIO_MAX * encoding

    asyncio.run(story())


@pytest.mark.parametrize("form", ["application/proto", "application/json"])
def test_a_list_lets_everything_else_run_in_between(form: str, tmp_path: Path) -> None:
    async def story() -> None:
        store = await large_fleet(tmp_path)
        local = build_local_api(store=store)
        body = b"{}" if form.endswith("json") else b""
        stalls, answers = [], []
        for _ in range(3):
            call = asyncio.create_task(call_app(local.app, "POST", LIST, body, content_type=form))
            stalls.append(await worst_stall(call))
            answers.append(await call)
        store.close()
        assert min(stalls) < STALL_S_MAX
        reply = pb.ListNodesResponse()
        if form.endswith("json"):
            json_format.Parse(answers[0].body, reply)
        else:
            reply = pb.ListNodesResponse.FromString(answers[0].body)
        assert [each.node_id for each in reply.nodes] == [f"node-{i}" for i in range(NODES)]
        assert reply.nodes[1].gpus[7].uuid == "GPU-node-1-7"
        assert reply.nodes[1].metadata.labels == {"rack": "r1"}

    asyncio.run(story())
