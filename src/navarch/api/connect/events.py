"""Check results from the health events of the Go system's agents.

Our own catalogue rates XIDs and overrides the reference's list of fatal ones, by which a crashed
program makes a node unhealthy.
"""

from collections.abc import Iterable
from datetime import UTC
from typing import Any

from navarch.core.health import EVENTS, SEVERITY, CheckResult, Health
from navarch.core.records import evolve
from navarch.health.checks.xid import assess_xid
from navarch.wire.reference import navarch_pb2 as pb

XID_CHECK = "xid"

_TYPES = pb.HealthEventType
_SYSTEMS = pb.HealthWatchSystem
_NOTED_TYPES = [_TYPES.Value(f"HEALTH_EVENT_TYPE_{name}") for name in ("NVLINK", "PCIE", "POWER")]
_NOTED_SYSTEMS = [
    _SYSTEMS.Value(f"HEALTH_WATCH_SYSTEM_{name}") for name in ("NVLINK", "PCIE", "POWER")
]


def judge_events(events: Iterable[pb.HealthEvent]) -> list[CheckResult]:
    """Return one result for each kind of event on each GPU, the worst last.

    A policy may rate them in another way, so that none is left out.
    """
    together: dict[tuple[str, int, int, str, int], list[CheckResult]] = {}
    for event in events:
        is_xid = event.event_type == _TYPES.HEALTH_EVENT_TYPE_XID
        result = _judge_xid(event) if is_xid else _judge_other(event)
        code = _xid_code(event) if is_xid else 0
        key = (result.check, event.event_type, code, event.gpu_uuid, event.gpu_index)
        together.setdefault(key, []).append(result)
    return sorted(map(_merged, together.values()), key=_severity)


def _merged(alike: list[CheckResult]) -> CheckResult:
    """Return the latest of the worst results: a burst of one error is one report."""
    worst = max(reversed(alike), key=_severity)
    if len(alike) == 1:
        return worst
    return evolve(worst, facts={**worst.facts, "times": str(len(alike))})


def _severity(result: CheckResult) -> int:
    return SEVERITY[result.health]


def _judge_other(event: pb.HealthEvent) -> CheckResult:
    return CheckResult(
        check=EVENTS, health=_judge(event), reason=_description(event), facts=_facts(event)
    )


def _judge_xid(event: pb.HealthEvent) -> CheckResult:
    ruling = assess_xid(_xid_code(event), event.message)
    return CheckResult(
        check=XID_CHECK if ruling.fatal else EVENTS,
        health=ruling.health,
        reason=_description(event),
        fatal=ruling.fatal,
        lasting=ruling.fatal,
        action=str(ruling.action),
        facts={"code": str(_xid_code(event)), "class": str(ruling.entry.origin), **_facts(event)},
    )


def _facts(event: pb.HealthEvent) -> dict[str, str]:
    """Return an event in its original form, for policies in the reference's terms."""
    kind, system = event.event_type, event.system
    known = {
        "event_type": _word(_TYPES, kind, "HEALTH_EVENT_TYPE_").lower(),
        "system": f"DCGM_HEALTH_WATCH_{_word(_SYSTEMS, system, 'HEALTH_WATCH_SYSTEM_')}",
        "gpu": event.gpu_uuid,
        "gpu_index": str(event.gpu_index),
        "text": event.message,
        "at": event.timestamp.ToDatetime(tzinfo=UTC).isoformat() if event.timestamp.seconds else "",
    }
    measured = {f"metrics.{name}": value for name, value in event.metrics.items()}
    return {name: value for name, value in (known | measured).items() if value}


def _word(words: Any, number: int, prefix: str) -> str:  # noqa: ANN401 - protobuf's enum wrapper
    return str(words.Name(number)).removeprefix(prefix) if number in words.values() else "UNKNOWN"


def _xid_code(event: pb.HealthEvent) -> int:
    digits = event.metrics.get("xid_code", "")
    # Zero is in no catalogue: an invalid number is a warning, like an unknown one.
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 6 else 0


def _judge(event: pb.HealthEvent) -> Health:
    kind, system = event.event_type, event.system
    double_bit_errors = _number(event, "ecc_dbe_count") or 0
    in_memory = system == _SYSTEMS.HEALTH_WATCH_SYSTEM_MEM and double_bit_errors > 0
    if kind == _TYPES.HEALTH_EVENT_TYPE_ECC_DBE or in_memory:
        return Health.UNHEALTHY
    if kind == _TYPES.HEALTH_EVENT_TYPE_ECC_SBE:
        many = (_number(event, "ecc_sbe_count") or 0) > 100
        return Health.DEGRADED if many else Health.HEALTHY
    if kind == _TYPES.HEALTH_EVENT_TYPE_THERMAL:
        temperature_c = _number(event, "temperature") or 0
        if temperature_c >= 95:
            return Health.UNHEALTHY
        return Health.DEGRADED if temperature_c >= 85 else Health.HEALTHY
    noted = kind in _NOTED_TYPES or system in _NOTED_SYSTEMS
    return Health.DEGRADED if noted else Health.HEALTHY


def _number(event: pb.HealthEvent, name: str) -> float | None:
    try:
        return float(event.metrics[name]) if name in event.metrics else None
    except ValueError:
        return None


def _description(event: pb.HealthEvent) -> str:
    where = f"GPU {event.gpu_index}" if event.gpu_index >= 0 else "node"
    if event.event_type == _TYPES.HEALTH_EVENT_TYPE_XID:
        code = event.metrics.get("xid_code", "?")
        return f"XID {code} on {where}: {event.message}".removesuffix(": ")
    known = event.event_type in _TYPES.values()
    kind = _TYPES.Name(event.event_type)[len("HEALTH_EVENT_TYPE_") :].lower() if known else "event"
    return f"{kind} on {where}: {event.message}".removesuffix(": ")
