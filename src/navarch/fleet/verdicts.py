"""The reports of an agent, as changes of its node: health and traits."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from navarch.core.event import BY_HAND, Event, Subject, about
from navarch.core.health import BOOT, CHECK_VERSION, CheckResult, Health
from navarch.core.instance import Inventory
from navarch.core.node import (
    AGENT,
    CHECK_TRAIT,
    DRIVER,
    IMAGE,
    KERNEL,
    LINK,
    PAST_SILENCES_MAX,
    Node,
    Silence,
    Trait,
)
from navarch.core.records import evolve
from navarch.fleet.disruption.unhealthy import is_ours
from navarch.fleet.silence import heartbeat_condition
from navarch.health.conditions import evaluate, explain, worst


def with_results(
    node: Node, results: Sequence[CheckResult], *, now: datetime, because: tuple[Subject, ...] = ()
) -> tuple[Node, list[Event]]:
    """Return `node` after `results`, with an event if something changed.

    `because` lists further causes for the event. A new version of a check is none.
    """
    traits = with_check_versions(node.traits, results, now=now)
    if traits is not node.traits:
        node = evolve(node, traits=traits)
    conditions = evaluate(node.conditions, results, now=now, boot_id=node.boot_id)
    health = worst(conditions)
    boot = node.vouched_boot
    for result in results:
        if result.check == BOOT and result.health is Health.HEALTHY:
            boot = node.boot_id
    if (conditions, health, boot) == (node.conditions, node.health, node.vouched_boot):
        return node, []
    after = evolve(node, conditions=conditions, health=health, vouched_boot=boot)
    silence = heartbeat_condition(node)
    if silence is not None and heartbeat_condition(after) is None:
        past = (*node.past_silences, Silence(since=silence.since, until=now))
        after = evolve(after, testimonies=(), past_silences=past[-PAST_SILENCES_MAX:])
    reason = explain(conditions) if conditions else "every check passes"
    return after, [_event(after, f"{after.health}: {reason}", now, because=because)]


def with_past_results(
    node: Node,
    results: Sequence[CheckResult],
    *,
    boot_id: str,
    now: datetime,
    because: tuple[Subject, ...] = (),
) -> tuple[Node, list[Event]]:
    """Return `node` after `results` from an earlier boot.

    A past state is no evidence about the present. A past incident is kept, under its own boot,
    until the boot check passes on the running boot, and never replaces a newer finding.
    """
    if node.vouched_boot == node.boot_id:
        return node, []
    known = {c.check for c in node.conditions if c.boot_id == node.boot_id}
    bad = (Health.DEGRADED, Health.UNHEALTHY)
    lasting = [r for r in results if r.lasting and r.health in bad and r.check not in known]
    if not lasting:
        return node, []
    conditions = evaluate(node.conditions, lasting, now=now, boot_id=boot_id)
    after = evolve(node, conditions=conditions, health=worst(conditions))
    if after == node:
        return node, []
    text = f"{after.health}: {explain(conditions)} (found before the machine booted)"
    return after, [_event(after, text, now, because=because)]


def overridden(node: Node, reason: str, *, now: datetime) -> tuple[Node, list[Event]]:
    """Return `node` declared healthy by an operator, against its checks."""
    after = evolve(node, conditions=(), health=Health.HEALTHY, testimonies=(), overridden_at=now)
    if is_ours(node):
        after = evolve(after, cordoned=None)
    text = f"{after.health}: overridden: {reason}"
    if node.conditions:
        text += f" (was {node.health}: {explain(node.conditions)})"
    return after, [_event(after, text, now, by=BY_HAND)]


def _event(
    node: Node, reason: str, now: datetime, *, because: tuple[Subject, ...] = (), by: str = ""
) -> Event:
    facts = {"health": str(node.health)}
    if failing := " ".join(sorted(x.check for x in node.conditions)):
        # The failing checks, for readers of the journal.
        facts["checks"] = failing
    if by:
        facts["by"] = by
    return Event(
        at=now,
        about=about("node", node.id),
        kind="node.health",
        reason=reason,
        because=because,
        facts=facts,
    )


def traits_after(
    before: Mapping[str, Trait], inventory: Inventory, *, link: str = "", now: datetime
) -> dict[str, Trait]:
    """Return the traits of a node that registers at `link`; a trait that is not reported stays.

    A driver that does not load reports no version, and the driver of exactly that node must not be
    forgotten.
    """
    drivers = (gpu.driver_version for gpu in inventory.gpus if gpu.driver_version)
    reported = {
        DRIVER: next(drivers, ""),
        IMAGE: inventory.image or inventory.labels.get("image", ""),
        KERNEL: inventory.kernel_version,
        AGENT: inventory.agent_version,
        LINK: link,
    }
    return _with_values(before, reported, now=now)


VERSIONED_CHECKS_MAX = 32
"""How many checks of one node may have versions of their own."""

_CHECK_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_CHECK_VERSION = re.compile(r"[A-Za-z0-9.+_-]{1,64}")


def with_check_versions(
    before: Mapping[str, Trait], results: Iterable[CheckResult], *, now: datetime
) -> Mapping[str, Trait]:
    """Return the traits of a node with the versions that the checks of `results` report.

    Returns `before` itself if none has changed, as with nearly all reports.
    """
    results = [result for result in results if CHECK_VERSION in result.facts]
    if not results:
        return before
    reported: dict[str, str] = {}
    known = sum(key.startswith(CHECK_TRAIT) for key in before)
    for result in results:
        version, check = result.facts[CHECK_VERSION], result.check.partition("/")[0]
        if not _CHECK_VERSION.fullmatch(version) or not _CHECK_NAME.fullmatch(check):
            continue
        key = CHECK_TRAIT + check
        known += key not in before and key not in reported
        if key in before or known <= VERSIONED_CHECKS_MAX:
            reported[key] = version
    if all(key in before and before[key].value == value for key, value in reported.items()):
        return before
    return _with_values(before, reported, now=now)


def _with_values(
    before: Mapping[str, Trait], reported: Mapping[str, str], *, now: datetime
) -> dict[str, Trait]:
    """Return the traits after values were reported; empty ones change nothing."""
    after = dict(before)
    for key, value in reported.items():
        if not value:
            continue
        known = before.get(key)
        if known is None:
            after[key] = Trait(value=value, since=now)
        elif known.value != value:
            after[key] = known.followed_by(value, at=now)
    return after
