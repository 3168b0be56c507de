"""Nodes with their hardware, as the Go system shows them.

A list in JSON is written without messages in between: the library takes five times as long.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from navarch.api.connect.messages import set_time, status_word
from navarch.core.health import Health
from navarch.core.instance import Inventory
from navarch.ports.api import NodeDetail
from navarch.wire.reference import navarch_pb2 as pb


def nodes_proto(details: Sequence[NodeDetail]) -> bytes:
    """Return nodes as a ListNodesResponse."""
    response = pb.ListNodesResponse()
    for detail in details:
        _write(response.nodes.add, detail)
    return response.SerializeToString()


def nodes_json(details: Sequence[NodeDetail]) -> bytes:
    """Return nodes as the items of a list in JSON, as the library writes `node_message`."""
    return msgspec.json.encode([_node(detail) for detail in details])[1:-1]


def node_message(detail: NodeDetail) -> pb.NodeInfo:
    """Return a node with its hardware."""
    return _write(pb.NodeInfo, detail)


def _write(new: Callable[..., pb.NodeInfo], detail: NodeDetail) -> pb.NodeInfo:
    # In place: a message that is passed to another is copied, which takes as long again.
    node = detail.node
    inventory = detail.inventory or Inventory()
    message = new(
        node_id=node.id,
        provider=node.provider,
        region=node.region,
        zone=node.zone,
        instance_type=node.instance_type,
        status=status_word(node.status),
        health_status=f"HEALTH_STATUS_{node.health.name}",
    )
    add = message.gpus.add
    for gpu in inventory.gpus:
        add(
            index=gpu.index,
            uuid=gpu.uuid,
            name=gpu.name,
            pci_bus_id=gpu.pci_bus_id,
            memory_total=gpu.memory_bytes,
            driver_version=gpu.driver_version,
            cuda_version=gpu.cuda_version,
        )
    metadata = message.metadata
    metadata.SetInParent()
    metadata.hostname = inventory.hostname
    metadata.internal_ip = inventory.internal_ip or node.private_address
    metadata.external_ip = inventory.external_ip or node.public_address
    metadata.kernel_version = inventory.kernel_version
    metadata.labels.update({**node.labels, **inventory.labels})
    set_time(message.last_heartbeat, node.last_heartbeat or node.registered_at)
    return message


# The JSON form of protobuf: a value that is zero is left out, and a number of 64 bits is a text.


class _Gpu(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    index: int = 0
    uuid: str = ""
    name: str = ""
    pci_bus_id: str = ""
    memory_total: str = ""
    driver_version: str = ""
    cuda_version: str = ""


class _Metadata(msgspec.Struct, rename="camel", omit_defaults=True):
    hostname: str = ""
    internal_ip: str = ""
    external_ip: str = ""
    kernel_version: str = ""
    labels: Mapping[str, str] = {}


class _Node(msgspec.Struct, rename="camel", omit_defaults=True):
    metadata: _Metadata
    node_id: str = ""
    provider: str = ""
    region: str = ""
    zone: str = ""
    instance_type: str = ""
    status: str = ""
    health_status: str = ""
    last_heartbeat: str = ""
    gpus: list[_Gpu] = []


def _node(detail: NodeDetail) -> _Node:
    node = detail.node
    inventory = detail.inventory or Inventory()
    seen_at = node.last_heartbeat or node.registered_at
    return _Node(
        node_id=node.id,
        provider=node.provider,
        region=node.region,
        zone=node.zone,
        instance_type=node.instance_type,
        status="" if node.status is None else status_word(node.status),
        health_status="" if node.health is Health.UNKNOWN else f"HEALTH_STATUS_{node.health.name}",
        last_heartbeat="" if seen_at is None else _time(seen_at),
        gpus=[
            _Gpu(
                index=gpu.index,
                uuid=gpu.uuid,
                name=gpu.name,
                pci_bus_id=gpu.pci_bus_id,
                memory_total=str(gpu.memory_bytes) if gpu.memory_bytes else "",
                driver_version=gpu.driver_version,
                cuda_version=gpu.cuda_version,
            )
            for gpu in inventory.gpus
        ],
        metadata=_Metadata(
            hostname=inventory.hostname,
            internal_ip=inventory.internal_ip or node.private_address,
            external_ip=inventory.external_ip or node.public_address,
            kernel_version=inventory.kernel_version,
            labels={**node.labels, **inventory.labels},
        ),
    )


def _time(moment: datetime) -> str:
    micros = moment.microsecond
    digits = "seconds" if not micros else "microseconds" if micros % 1000 else "milliseconds"
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=digits) + "Z"
