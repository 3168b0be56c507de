"""Occurrences: findings with their circumstances, as variables for rules."""

import re
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

import msgspec

from navarch.core.health import EVENTS, TESTING, CheckResult, Health
from navarch.core.node import Node
from navarch.health.policy.policy import MachinePhase
from navarch.health.xid.catalogue import SXIDS_FROM

EVENT_FIELDS = (
    *("timestamp", "gpu_index", "gpu_uuid", "system", "event_type", "message", "metrics"),
    *("check", "class", "sources", "process"),
)
"""The first seven have the names that the Go system uses."""
CHECK_FIELDS = ("name", "health", "fatal", "action", "lasting")
GPU_FIELDS = ("health", "checks", "codes")
NODE_FIELDS = (
    *("name", "pool", "provider", "region", "zone", "instance_type", "labels", "gpus"),
    *("health", "checks", "cordoned"),
)
FIELDS = {"event": EVENT_FIELDS, "check": CHECK_FIELDS, "gpu": GPU_FIELDS, "node": NODE_FIELDS}
VARIABLES = (*FIELDS, "phase")

_TYPES = {
    "xid": ("xid", "DRIVER"),
    "temperature": ("thermal", "THERMAL"),
    "throttle": ("thermal", "THERMAL"),
    "power": ("power", "POWER"),
    "ecc": ("ecc_dbe", "MEM"),
    "rows": ("memory", "MEM"),
    "memory": ("memory", "MEM"),
    "nvlink": ("nvlink", "NVLINK"),
    "fabric": ("nvlink", "NVSWITCH"),
    "fabric_manager": ("nvlink", "NVSWITCH"),
    "pcie": ("pcie", "PCIE"),
    "gpu": ("driver_error", "DRIVER"),
    "count": ("driver_error", "DRIVER"),
    "recovery": ("driver_error", "DRIVER"),
}
"""Event type and system for the results of our checks, in the Go system's terms."""

_INTEGER = re.compile(r"-?\d{1,18}", re.ASCII)
_DECIMAL = re.compile(r"-?\d+\.\d*(e-?\d+)?", re.ASCII | re.IGNORECASE)
_WORDS = {"true": True, "false": False}


class Occurrence(msgspec.Struct, frozen=True, kw_only=True):
    """A finding, and the state of its node at that time."""

    result: CheckResult
    node: Node
    at: datetime
    phase: MachinePhase

    @property
    def gpu(self) -> str:
        """The GPU's UUID; empty if the finding is about the node."""
        return self.result.facts.get("gpu", "")

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the sources that saw it."""
        return tuple(filter(None, self.result.facts.get("sources", "").split(",")))

    def fact(self, name: str) -> str:
        """Return a fact, or "". A pid is unique within one boot only, so it gets the boot's id."""
        value = self.result.facts.get(name, "")
        return f"{self.node.boot_id}/{value}" if name == "pid" and value else value


def is_occurrence(result: CheckResult) -> bool:
    """Return whether a policy should judge a result.

    A result that could not be obtained is no evidence about the hardware, and a healthy one is no
    event. The `testing` check informs the scheduler, and rules must not override it.
    """
    health = result.health
    if health is Health.UNKNOWN or result.check == TESTING:
        return False
    return health is not Health.HEALTHY or result.lasting or "event_type" in result.facts


def is_reported_once(result: CheckResult) -> bool:
    """Return whether a result is an event of the Go system's agents."""
    return result.check == EVENTS and "event_type" in result.facts


def condition_name(result: CheckResult) -> str:
    """Return the name of the condition of an event: its check, what happened, and the GPU."""
    if result.lasting:
        # The process is not part of the name.
        return "/".join(result.check.split("/")[:3])
    facts = result.facts
    where = facts.get("gpu") or facts.get("gpu_index", "")
    return f"{result.check}/{facts.get('code') or facts['event_type']}/{where}"


def variables(occurrence: Occurrence, names: Collection[str] = VARIABLES) -> dict[str, Any]:
    """Return the variables called `names` for an expression."""
    return {name: _VARIABLES[name](occurrence) for name in names}


def _event(occurrence: Occurrence) -> dict[str, Any]:
    result, facts = occurrence.result, occurrence.result.facts
    name = result.check.partition("/")[0]
    kind, system = _TYPES.get(name, ("unknown", "UNKNOWN"))
    if int(_number(facts.get("code", ""))) >= SXIDS_FROM:
        kind, system = "nvlink", "NVSWITCH"
    return {
        "timestamp": occurrence.at.isoformat(),
        "gpu_index": int(_number(facts.get("gpu_index", "-1"), -1)),
        "gpu_uuid": occurrence.gpu,
        "system": facts.get("system", f"DCGM_HEALTH_WATCH_{system}"),
        "event_type": facts.get("event_type", kind),
        "message": facts.get("text") or result.reason,
        "metrics": _metrics(facts),
        "check": name,
        "class": facts.get("class", ""),
        "sources": list(occurrence.sources),
        "process": facts.get("process", ""),
    }


_NOT_MEASURED = frozenset(
    {"gpu", "gpu_index", "kind", "class", "text", "at", "sources", "process", "pci"}
    | {"event_type", "system", "code"}
)


def _metrics(facts: Mapping[str, str]) -> dict[str, Any]:
    """Return the measured values, converted from text to numbers."""
    measured = {
        name.removeprefix("metrics."): value_of(text)
        for name, text in facts.items()
        if name not in _NOT_MEASURED
    }
    if "code" in facts:
        code = int(_number(facts["code"]))
        measured.setdefault("sxid_code" if code >= SXIDS_FROM else "xid_code", code)
    return measured


def _check(occurrence: Occurrence) -> dict[str, Any]:
    result = occurrence.result
    return {
        "name": result.check,
        "health": str(result.health),
        "fatal": result.fatal,
        "action": result.action,
        "lasting": result.lasting,
    }


def _gpu(occurrence: Occurrence) -> dict[str, Any]:
    """Return the conditions that the GPU had before this finding."""
    gpu = occurrence.gpu
    wrong = [c for c in occurrence.node.conditions if gpu and c.facts.get("gpu") == gpu]
    words = {str(condition.health) for condition in wrong}
    worst = next((word for word in ("unhealthy", "degraded") if word in words), "healthy")
    return {
        "health": worst,
        "checks": [condition.check.partition("/")[0] for condition in wrong],
        "codes": [int(_number(c.facts["code"])) for c in wrong if "code" in c.facts],
    }


def _node(occurrence: Occurrence) -> dict[str, Any]:
    node = occurrence.node
    place = node.place
    return {
        "name": str(node.id),
        "pool": str(node.pool or ""),
        "provider": str(place.provider) if place else "",
        "region": place.region if place else "",
        "zone": place.zone if place else "",
        "instance_type": place.instance_type if place else "",
        "labels": dict(node.labels),
        "gpus": node.gpus or 0,
        "health": str(node.health),
        "checks": [condition.check.partition("/")[0] for condition in node.conditions],
        "cordoned": node.cordoned is not None,
    }


_VARIABLES: dict[str, Callable[[Occurrence], Any]] = {
    "event": _event,
    "check": _check,
    "gpu": _gpu,
    "node": _node,
    "phase": lambda occurrence: str(occurrence.phase),
}


def value_of(text: str) -> int | float | bool | str:
    """Return a measurement as int, float or bool if possible, else as text."""
    if _INTEGER.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text):
        return float(text)
    return _WORDS.get(text, text)


def _number(text: str, default: float = 0) -> float:
    value = value_of(text)
    return default if isinstance(value, str | bool) else value
