"""Example API views, and the golden files for their output."""

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from navarch.core.event import Event, Recorded, about
from navarch.core.health import Condition, Health
from navarch.core.ids import CommandId, InstanceId, NodeId, PoolName, ProviderName
from navarch.core.instance import Gpu, GpuMetrics, Inventory, NodeMetrics
from navarch.core.launch import Offering
from navarch.core.node import InstanceState, NodeStatus, Phase
from navarch.core.records import evolve
from navarch.core.recovery import Command, CommandKind, CommandStatus
from navarch.ports.api import (
    FleetStatus,
    InstanceView,
    NodeDetail,
    NodeView,
    PoolSpec,
    PoolView,
    Step,
    Why,
)

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
GOLDEN = Path(__file__).parents[2] / "golden"


def check_golden(name: str, text: str) -> None:
    """Compare `text` with a golden file; NAVARCH_RECORD_GOLDEN=1 rewrites the file."""
    path = GOLDEN / name
    if os.environ.get("NAVARCH_RECORD_GOLDEN"):
        path.write_text(text + "\n", encoding="utf-8")
    assert text + "\n" == path.read_text(encoding="utf-8"), f"{name} differs"


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


XID = Condition(
    check="xid",
    health=Health.UNHEALTHY,
    reason="XID 79 on GPU 0: GPU has fallen off the bus",
    since=ago(95),
    fatal=True,
    lasting=True,
)

ACTIVE = NodeView(
    id=NodeId("training-0"),
    pool=PoolName("training"),
    status=NodeStatus.ACTIVE,
    phase=Phase.READY,
    health=Health.HEALTHY,
    cordoned=None,
    retiring=None,
    conditions=(),
    provider="lambda",
    region="us-east-1",
    zone="us-east-1a",
    instance_type="gpu_8x_h100_sxm5",
    instance=InstanceId("i-0f3a9c21"),
    public_address="198.51.100.7",
    private_address="10.0.0.7",
    gpus=8,
    price_per_hour=Decimal("23.92"),
    created_at=ago(90000),
    since=ago(89000),
    registered_at=ago(89000),
    last_heartbeat=ago(12),
    replaces=None,
    labels={"team": "vision"},
)

LEAVING = replace(
    ACTIVE,
    id=NodeId("training-1"),
    status=NodeStatus.DRAINING,
    phase=Phase.DRAINING,
    health=Health.UNHEALTHY,
    cordoned="unhealthy: xid: XID 79 on GPU 0: GPU has fallen off the bus",
    retiring="unhealthy: xid: XID 79 on GPU 0: GPU has fallen off the bus",
    conditions=(XID,),
    since=ago(90),
    last_heartbeat=ago(7),
)

BOOTING = replace(
    ACTIVE,
    id=NodeId("training-12"),
    status=None,
    phase=Phase.BOOTING,
    health=Health.UNKNOWN,
    instance=InstanceId("i-77aa01"),
    created_at=ago(88),
    since=ago(70),
    registered_at=None,
    last_heartbeat=None,
    replaces=NodeId("training-1"),
)

CORDONED = replace(
    ACTIVE,
    id=NodeId("edge"),
    pool=None,
    status=NodeStatus.CORDONED,
    cordoned="new fans",
    zone="",
    provider="baremetal",
    instance=None,
    last_heartbeat=ago(7200),
)

GONE = replace(LEAVING, id=NodeId("training-2"), status=NodeStatus.TERMINATED, phase=Phase.GONE)

NODES = (CORDONED, ACTIVE, LEAVING, BOOTING, GONE)

DETAIL = NodeDetail(
    node=LEAVING,
    inventory=Inventory(
        gpus=tuple(
            Gpu(
                index=i,
                uuid=f"GPU-5f1b{i}",
                name="NVIDIA H100 80GB HBM3",
                pci_bus_id=f"00000000:{i:02X}:00.0",
                memory_bytes=80 * 2**30,
            )
            for i in range(2)
        ),
        hostname="ip-10-0-0-7",
        kernel_version="6.8.0",
    ),
    metrics=NodeMetrics(
        gpus=(GpuMetrics(temperature_c=61, power_w=512, utilization_pct=97), GpuMetrics())
    ),
    commands=(
        Command(
            id=CommandId("command-1"),
            node=LEAVING.id,
            kind=CommandKind.RUN_DIAGNOSTIC,
            issued_at=ago(80),
            expires_at=ago(-3600),
            status=CommandStatus.FAILED,
            result="dcgmi: level 2 failed",
        ),
    ),
)

H100 = Offering(
    provider=ProviderName("lambda"),
    instance_type="gpu_8x_h100_sxm5",
    region="us-east-1",
    gpu_type="h100",
    price_per_hour=Decimal("23.92"),
)

POOL = PoolView(
    spec=PoolSpec(
        name=PoolName("training"),
        offerings=(H100, evolve(H100, provider=ProviderName("gcp"), spot=True)),
        nodes_min=2,
        nodes_max=16,
        nodes_wanted=12,
        labels={"team": "vision"},
        ssh_keys=("ops",),
    ),
    size=12,
    serving=10,
    starting=1,
    leaving=1,
    unhealthy=1,
    cordoned=0,
    price_per_hour=Decimal("1287.04"),
    note="1 refused by every provider so far, asking again",
)

IDLE = replace(
    POOL,
    spec=replace(POOL.spec, name=PoolName("batch"), nodes_min=0),
    size=0,
    serving=0,
    starting=0,
    leaving=0,
    unhealthy=0,
    price_per_hour=Decimal(0),
    note="",
)

INSTANCE = InstanceView(
    id="i-0f3a9c21",
    provider="lambda",
    region="us-east-1",
    zone="us-east-1a",
    instance_type="gpu_8x_h100_sxm5",
    state=InstanceState.RUNNING,
    pool=PoolName("training"),
    node=NodeId("training-0"),
    created_at=ago(90000),
    ready_at=ago(89000),
    terminated_at=None,
    message="node registered successfully",
    labels={"pool": "training"},
)

PENDING = replace(
    INSTANCE,
    id="launch-91b3",
    node=NodeId("training-12"),
    state=InstanceState.PENDING_REGISTRATION,
    created_at=ago(88),
    ready_at=None,
    message="waiting for node to register",
)


def recorded(number: int, seconds_ago: float, subject: str, kind: str, reason: str) -> Recorded:
    noun, _, name = subject.partition("/")
    event = Event(at=ago(seconds_ago), about=about(noun, name), kind=kind, reason=reason)
    return Recorded(number=number, revision=number, event=event)


EVENTS = (
    recorded(41, 100000, "pool/training", "pool.scaled", "10 to 12 nodes: by hand"),
    recorded(
        42,
        95,
        "node/training-1",
        "node.health",
        "unhealthy: xid: XID 79 on GPU 0: GPU has fallen off the bus",
    ),
    recorded(
        43,
        95,
        "node/training-1",
        "node.retiring",
        "unhealthy: xid: XID 79 on GPU 0: GPU has fallen off the bus",
    ),
    recorded(44, 88, "launch/launch-b13a9725c272", "launch.asked", "a machine for training-12"),
)

STATUS = FleetStatus(
    cluster="cluster-9f2c",
    version="0.1.0",
    revision=44,
    now=NOW,
    pools=(IDLE, POOL),
    nodes_by_status={"active": 10, "booting": 1, "draining": 1},
    gpus=88,
    price_per_hour=Decimal("1287.04"),
    recent=EVENTS,
)


def step(number: int, seconds_ago: float, kind: str, reason: str, *because: Why) -> Step:
    return Step(number=number, at=ago(seconds_ago), kind=kind, reason=reason, because=because)


STORY = Why(
    about=about("node", "training-12"),
    state="booting",
    steps=(
        step(48, 70, "node.booting", "the provider lists it as pending"),
        step(
            45,
            88,
            "node.requested",
            "replaces training-1; 11 of 12 nodes",
            Why(
                about=about("node", "training-1"),
                state="ready, unhealthy",
                steps=(
                    step(
                        43,
                        95,
                        "node.retiring",
                        "unhealthy: xid: XID 79 on GPU 0: GPU has fallen off the bus",
                    ),
                    step(
                        20,
                        89000,
                        "node.registered",
                        "the agent reported in",
                    ),
                ),
            ),
            Why(
                about=about("pool", "training"),
                state="scaled",
                steps=(step(41, 100000, "pool.scaled", "10 to 12 nodes: by hand"),),
            ),
        ),
    ),
)
