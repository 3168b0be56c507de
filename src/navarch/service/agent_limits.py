"""Bounds on what agents send. No agent is trusted: it may be on a machine of an attacker."""

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

import msgspec
import structlog

from navarch.core.errors import InvalidError
from navarch.core.health import SEVERITY, CheckResult, Health, HealthReport
from navarch.core.ids import NodeId
from navarch.core.launch import Offering
from navarch.core.limits import (
    CHECK_LENGTH,
    FACT_LENGTH,
    FACTS_LENGTH,
    FACTS_PER_RESULT,
    FAULTS_PER_REPORT,
    GPUS_PER_NODE,
    INVENTORY_BYTES,
    LABEL_LENGTH,
    LABELS_LENGTH,
    LABELS_PER_NODE,
    NAME_LENGTH,
    REASON_LENGTH,
    RESULTS_PER_REPORT,
    TEXT_LENGTH,
)
from navarch.core.records import evolve
from navarch.ports.agents import Registration

LEASE_S_MAX = 3660 * 24 * 3600
"""Ten years, the longest duration in a request."""

log = structlog.get_logger(__name__)


def check_registration(registration: Registration) -> None:
    """Raise InvalidError for a machine that cannot exist.

    Every API serves the registered values from then on, so they must be valid in all of them.
    """
    _check(registration.node.isprintable(), "$.node", "must be printable")
    # It is the name of a folder too.
    NAME_LENGTH.check(len(quote(registration.node, safe="")), "$.node")
    TEXT_LENGTH.check(len(registration.boot_id), "$.boot_id")
    TEXT_LENGTH.check(len(registration.token or ""), "$.token")
    if registration.place is not None:
        _check_place(registration.place)
    inventory = registration.inventory
    _check(
        0 <= inventory.dead_man_s <= LEASE_S_MAX, "$.inventory.dead_man_s", "is too long a lease"
    )
    GPUS_PER_NODE.check(len(inventory.gpus), "$.inventory.gpus")
    for place, gpu in enumerate(inventory.gpus):
        path, last = f"$.inventory.gpus[{place}]", GPUS_PER_NODE.most - 1
        _check(0 <= gpu.index <= last, f"{path}.index", f"must be 0 to {last}")
        _check(gpu.memory_bytes >= 0, f"{path}.memory_bytes", "must not be negative")
    _check_labels(inventory.labels)
    for field in ("hostname", "internal_ip", "kernel_version", "image", "agent_version"):
        TEXT_LENGTH.check(len(getattr(inventory, field)), f"$.inventory.{field}")
    INVENTORY_BYTES.check(len(msgspec.json.encode(inventory)), "$.inventory")


def _check_place(place: Offering) -> None:
    for field in place.__struct_fields__:
        value = getattr(place, field)
        if isinstance(value, str):
            TEXT_LENGTH.check(len(value), f"$.place.{field}")


def _check_labels(labels: Mapping[str, str]) -> None:
    LABELS_PER_NODE.check(len(labels), "$.inventory.labels")
    total = 0
    for name, value in labels.items():
        length = len(name) + len(value)
        LABEL_LENGTH.check(length, f"$.inventory.labels[{name[:40]!r}]")
        total += length
    LABELS_LENGTH.check(total, "$.inventory.labels")


def _check(holds: bool, path: str, complaint: str) -> None:
    if not holds:
        raise InvalidError(f"{complaint} - at `{path}`")


def bounded(node: NodeId, report: HealthReport) -> HealthReport:
    """Return the part of `report` to judge: what is healthy and the worst faults, texts cut.

    A storm of events is no reason to refuse a report, which may hold the proof of a fault, and
    every result that clears a fault counts. A report beyond any storm is refused: InvalidError.
    """
    results: Sequence[CheckResult] = report.results
    RESULTS_PER_REPORT.check(len(results), "$.report.results")
    TEXT_LENGTH.check(len(report.stream), "$.report.stream")
    TEXT_LENGTH.check(len(report.boot_id), "$.report.boot_id")
    faults = sum(result.health is not Health.HEALTHY for result in results)
    if faults > FAULTS_PER_REPORT.most:
        log.warning("report.cut", node=node, faults=faults, judged=FAULTS_PER_REPORT.most)
        results = _without_lesser_faults(results)
    if results is report.results and all(map(_fits, results)):
        return report
    return evolve(report, results=tuple(map(_cut, results)))


def _without_lesser_faults(results: Sequence[CheckResult]) -> Sequence[CheckResult]:
    """Return the healthy results and the worst faults, in the order in which they were reported."""

    def severity(place: int) -> tuple[int, bool, int]:
        return -SEVERITY[results[place].health], not results[place].fatal, place

    faults = [i for i, result in enumerate(results) if result.health is not Health.HEALTHY]
    left_out = set(sorted(faults, key=severity)[FAULTS_PER_REPORT.most :])
    return [result for i, result in enumerate(results) if i not in left_out]


def _fits(result: CheckResult) -> bool:
    return (
        len(result.check) <= CHECK_LENGTH.most
        and len(result.reason) <= REASON_LENGTH.most
        and len(result.action) <= CHECK_LENGTH.most
        and len(result.facts) <= FACTS_PER_RESULT.most
        and sum(len(k) + len(v) for k, v in result.facts.items()) <= FACT_LENGTH.most
    )


def _cut(result: CheckResult) -> CheckResult:
    if _fits(result):
        return result
    return evolve(
        result,
        check=CHECK_LENGTH.cut(result.check),
        reason=REASON_LENGTH.cut(result.reason),
        action=CHECK_LENGTH.cut(result.action),
        facts=dict(_first_facts(result.facts)),
    )


def _first_facts(facts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    room = FACTS_LENGTH.most
    for name, value in list(facts.items())[: FACTS_PER_RESULT.most]:
        if len(name) > FACT_LENGTH.most:
            continue
        cut = value[: FACT_LENGTH.most - len(name)]
        room -= len(name) + len(cut)
        if room < 0:
            return
        yield name, cut
