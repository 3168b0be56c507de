"""A first policy for health events: what the Go system's default rules make of them."""

from collections.abc import Iterable, Iterator

from navarch.core.health import CheckResult, Health
from navarch.wire.reference import navarch_pb2 as pb

FATAL_XIDS = frozenset(
    {13, 31, 32, 43, 45, 48, 61, 62, 63, 64, 68, 69, 74, 79, 92, 94, 95, 100, 119, 120}
)
"""The reference's default list: these make a node unhealthy."""
HOPELESS_XIDS = frozenset({48, 74, 79, 95})
"""Of those, the ones that are acted on at once, because seeing them again would teach nothing:
a double-bit error, a dead NVLink, a GPU off the bus, an uncontained memory error."""

XID_CHECK = "xid"
EVENTS_CHECK = "health_events"
"""The check under which the reference's agent says in every round that events were collected; so
its next quiet round takes back what is not meant to last."""

_TYPES = pb.HealthEventType
_SYSTEMS = pb.HealthWatchSystem
_WORST = (Health.HEALTHY, Health.DEGRADED, Health.UNHEALTHY)


def judge_events(events: Iterable[pb.HealthEvent]) -> Iterator[CheckResult]:
    """Yield what `events` say about a node: XIDs each, everything else as its worst."""
    worst: CheckResult | None = None
    for event in events:
        if event.event_type == _TYPES.HEALTH_EVENT_TYPE_XID:
            yield _judge_xid(event)
            continue
        health = _judge(event)
        if worst is None or _WORST.index(health) > _WORST.index(worst.health):
            worst = CheckResult(check=EVENTS_CHECK, health=health, reason=_told(event))
    if worst is not None and worst.health is not Health.HEALTHY:
        yield worst


def _judge_xid(event: pb.HealthEvent) -> CheckResult:
    code = _number(event, "xid_code")
    fatal = code in FATAL_XIDS
    return CheckResult(
        check=XID_CHECK if fatal else EVENTS_CHECK,
        health=Health.UNHEALTHY if fatal else Health.DEGRADED,
        reason=_told(event),
        fatal=code in HOPELESS_XIDS,
        lasting=fatal,
    )


def _judge(event: pb.HealthEvent) -> Health:
    kind, system = event.event_type, event.system
    double_bit_errors = _number(event, "ecc_dbe_count") or 0
    if kind == _TYPES.HEALTH_EVENT_TYPE_ECC_DBE:
        return Health.UNHEALTHY
    if system == _SYSTEMS.HEALTH_WATCH_SYSTEM_MEM and double_bit_errors > 0:
        return Health.UNHEALTHY
    if kind == _TYPES.HEALTH_EVENT_TYPE_ECC_SBE:
        many = (_number(event, "ecc_sbe_count") or 0) > 100
        return Health.DEGRADED if many else Health.HEALTHY
    if kind == _TYPES.HEALTH_EVENT_TYPE_THERMAL:
        return _judge_heat(_number(event, "temperature") or 0)
    noted_kinds = (
        _TYPES.HEALTH_EVENT_TYPE_NVLINK,
        _TYPES.HEALTH_EVENT_TYPE_PCIE,
        _TYPES.HEALTH_EVENT_TYPE_POWER,
    )
    noted_systems = (
        _SYSTEMS.HEALTH_WATCH_SYSTEM_NVLINK,
        _SYSTEMS.HEALTH_WATCH_SYSTEM_PCIE,
        _SYSTEMS.HEALTH_WATCH_SYSTEM_POWER,
    )
    noted = kind in noted_kinds or system in noted_systems
    return Health.DEGRADED if noted else Health.HEALTHY


def _judge_heat(temperature_c: float) -> Health:
    if temperature_c >= 95:
        return Health.UNHEALTHY
    return Health.DEGRADED if temperature_c >= 85 else Health.HEALTHY


def _number(event: pb.HealthEvent, name: str) -> float | None:
    try:
        return float(event.metrics[name]) if name in event.metrics else None
    except ValueError:
        return None


def _told(event: pb.HealthEvent) -> str:
    where = f"GPU {event.gpu_index}" if event.gpu_index >= 0 else "node"
    if event.event_type == _TYPES.HEALTH_EVENT_TYPE_XID:
        code = event.metrics.get("xid_code", "?")
        return f"XID {code} on {where}: {event.message}".removesuffix(": ")
    known = event.event_type in _TYPES.values()
    kind = _TYPES.Name(event.event_type)[len("HEALTH_EVENT_TYPE_") :].lower() if known else "event"
    return f"{kind} on {where}: {event.message}".removesuffix(": ")
