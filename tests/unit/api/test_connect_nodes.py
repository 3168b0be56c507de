"""Nodes in the JSON of the Go system, beside the protobuf library."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st

from navarch.api.connect.nodes import node_message, nodes_json, nodes_proto
from navarch.core.health import Health
from navarch.core.ids import NodeId
from navarch.core.instance import Gpu, Inventory
from navarch.core.node import NodeStatus, Phase
from navarch.ports.api import NodeDetail, NodeView
from navarch.wire.reference import navarch_pb2 as pb

AT = datetime(2026, 11, 19, 12, 0, tzinfo=UTC)
PLAIN = NodeView(
    id=NodeId("gpu-1"),
    pool=None,
    status=NodeStatus.ACTIVE,
    phase=Phase.READY,
    health=Health.HEALTHY,
    cordoned=None,
    retiring=None,
    conditions=(),
    provider="",
    region="",
    zone="",
    instance_type="",
    instance=None,
    public_address="",
    private_address="",
    gpus=0,
    price_per_hour=Decimal(0),
    created_at=AT,
    since=AT,
    registered_at=AT,
    last_heartbeat=None,
    replaces=None,
    labels={},
)
texts = st.one_of(st.just(""), st.text(max_size=6))
labels = st.dictionaries(texts, texts, max_size=3)
zones = st.sampled_from([UTC, timezone(timedelta(hours=-5))])
times = st.one_of(
    st.none(),
    st.datetimes(datetime(1970, 1, 2), datetime(2999, 1, 1), timezones=zones),  # noqa: DTZ001
    st.sampled_from([AT, AT + timedelta(milliseconds=5), AT + timedelta(microseconds=5)]),
)
gpus = st.builds(
    Gpu,
    index=st.integers(0, 2**31 - 1),
    uuid=texts,
    name=texts,
    pci_bus_id=texts,
    memory_bytes=st.integers(0, 2**53),
    driver_version=texts,
    cuda_version=texts,
)
inventories = st.builds(
    Inventory,
    gpus=st.lists(gpus, max_size=3).map(tuple),
    hostname=texts,
    internal_ip=texts,
    external_ip=texts,
    kernel_version=texts,
    labels=labels,
)
views = st.builds(
    lambda **values: replace(PLAIN, **values),
    id=texts,
    status=st.sampled_from([None, *NodeStatus]),
    health=st.sampled_from(Health),
    provider=texts,
    region=texts,
    zone=texts,
    instance_type=texts,
    public_address=texts,
    private_address=texts,
    registered_at=times,
    last_heartbeat=times,
    labels=labels,
)
details = st.builds(
    NodeDetail,
    node=views,
    inventory=st.one_of(st.none(), inventories),
    metrics=st.none(),
    commands=st.just(()),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(details, max_size=3))
def test_a_list_in_json_is_that_of_the_library(nodes: list[NodeDetail]) -> None:
    written = json.loads(b"[%s]" % nodes_json(nodes))
    assert written == [json_format.MessageToDict(node_message(node)) for node in nodes]


@settings(max_examples=50, deadline=None)
@given(st.lists(details, max_size=3), st.lists(details, max_size=3))
def test_the_parts_of_a_list_in_protobuf_are_one_list(
    first: list[NodeDetail], second: list[NodeDetail]
) -> None:
    message = pb.ListNodesResponse.FromString(nodes_proto(first) + nodes_proto(second))
    assert list(message.nodes) == [node_message(node) for node in (*first, *second)]


@given(times)
def test_a_time_is_that_of_the_library(moment: datetime | None) -> None:
    detail = NodeDetail(
        node=replace(PLAIN, registered_at=moment), inventory=None, metrics=None, commands=()
    )
    expected = pb.NodeInfo()
    if moment is not None:
        expected.last_heartbeat.FromDatetime(moment)
    assert node_message(detail).last_heartbeat == expected.last_heartbeat
