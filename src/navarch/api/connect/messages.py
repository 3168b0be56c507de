"""Conversion between our values and the messages of the Go system."""

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar

from navarch.core.health import CheckResult, Health
from navarch.core.ids import NodeId, ProviderName
from navarch.core.instance import Gpu, Inventory
from navarch.core.launch import Offering
from navarch.core.node import NodeStatus
from navarch.core.recovery import Command
from navarch.ports.agents import Registration, Welcome
from navarch.ports.api import InstanceView
from navarch.wire.reference import navarch_pb2 as pb

ENABLED_CHECKS = ("boot", "nvml", "xid")
"""The intervals that the reference sends and its agents ignore."""


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

E = TypeVar("E", bound=StrEnum)


def status_word(status: NodeStatus | None) -> str:
    """Return the reference's status; UNKNOWN for a node that has not registered."""
    return f"NODE_STATUS_{'UNKNOWN' if status is None else status.name}"


def named(kind: type[E], enum: Any, prefix: str, number: int) -> E | None:  # noqa: ANN401
    """Return our word for a number of the reference; None for no filter, or an unknown one."""
    if number not in enum.values():
        return None
    name = enum.Name(number).removeprefix(prefix)
    return kind[name] if name in kind.__members__ else None


def registration(request: pb.RegisterNodeRequest) -> Registration:
    """Return an agent's registration."""
    return Registration(
        node=NodeId(request.node_id),
        place=Offering(
            provider=ProviderName(request.provider),
            instance_type=request.instance_type,
            region=request.region,
            zone=request.zone,
            gpus=len(request.gpus),
        ),
        inventory=Inventory(
            gpus=tuple(
                Gpu(
                    index=gpu.index,
                    uuid=gpu.uuid,
                    name=gpu.name,
                    pci_bus_id=gpu.pci_bus_id,
                    memory_bytes=gpu.memory_total,
                    driver_version=gpu.driver_version,
                    cuda_version=gpu.cuda_version,
                )
                for gpu in request.gpus
            ),
            hostname=request.metadata.hostname,
            internal_ip=request.metadata.internal_ip,
            external_ip=request.metadata.external_ip,
            kernel_version=request.metadata.kernel_version,
            labels=dict(request.metadata.labels),
        ),
    )


def welcome_message(welcome: Welcome) -> pb.RegisterNodeResponse:
    """Return the reply to a registration."""
    return pb.RegisterNodeResponse(
        success=True,
        message="registration successful",
        config=pb.NodeConfig(
            health_check_interval_seconds=int(welcome.health_check_interval.total_seconds()),
            heartbeat_interval_seconds=int(welcome.heartbeat_interval.total_seconds()),
            enabled_health_checks=ENABLED_CHECKS,
        ),
    )


COMMANDS = frozenset(pb.NodeCommandType.keys())
"""The commands that the reference's agents support; others are not sent to them."""
_HEALTHS = {
    pb.HealthStatus.HEALTH_STATUS_HEALTHY: Health.HEALTHY,
    pb.HealthStatus.HEALTH_STATUS_DEGRADED: Health.DEGRADED,
    pb.HealthStatus.HEALTH_STATUS_UNHEALTHY: Health.UNHEALTHY,
}


def check_results(results: Iterable[pb.HealthCheckResult]) -> list[CheckResult]:
    """Return the check results; checks without a result are left out."""
    return [
        CheckResult(
            check=result.check_name,
            health=_HEALTHS[result.status],
            reason=result.message,
            facts=dict(result.details),
        )
        for result in results
        if result.status in _HEALTHS
    ]


def command_message(command: Command) -> pb.NodeCommand:
    """Return a command as an agent receives it."""
    message = pb.NodeCommand(
        command_id=command.id,
        type=f"NODE_COMMAND_TYPE_{command.kind.name}",
        parameters=dict(command.parameters),
    )
    message.issued_at.FromDatetime(command.issued_at)
    return message


def instance_message(instance: InstanceView) -> pb.InstanceInfo:
    """Return a machine."""
    message = pb.InstanceInfo(
        instance_id=instance.id,
        provider=instance.provider,
        region=instance.region,
        zone=instance.zone,
        instance_type=instance.instance_type,
        state=f"INSTANCE_STATE_{instance.state.name}",
        pool_name=instance.pool or "",
        # The reference has a node only after its agent registers.
        node_id=instance.node if instance.ready_at else "",
        status_message=instance.message,
        labels=dict(instance.labels),
    )
    set_time(message.created_at, instance.created_at)
    set_time(message.ready_at, instance.ready_at)
    set_time(message.terminated_at, instance.terminated_at)
    return message


def set_time(field: Any, moment: datetime | None) -> None:  # noqa: ANN401 - a Timestamp
    """Set a Timestamp; None leaves it unset. The library's way takes four times as long."""
    if moment is not None:
        since = moment - _EPOCH
        field.seconds = since.days * 86_400 + since.seconds
        field.nanos = since.microseconds * 1000
