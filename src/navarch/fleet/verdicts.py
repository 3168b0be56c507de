"""The reports of an agent, as changes of its node: health and traits."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from navarch.core.event import BY_HAND, Event, Subject, about
from navarch.core.health import BOOT, CheckResult, Health
from navarch.core.instance import Inventory
from navarch.core.node import AGENT, DRIVER, IMAGE, KERNEL, Node, Trait
from navarch.core.records import evolve
from navarch.fleet.disruption.unhealthy import is_ours
from navarch.fleet.silence import heartbeat_condition
from navarch.health.conditions import evaluate, explain, worst


def with_results(
    node: Node, results: Sequence[CheckResult], *, now: datetime, because: tuple[Subject, ...] = ()
) -> tuple[Node, list[Event]]:
    """Return `node` after `results`, with an event if something changed.

    `because` lists further causes for the event.
    """
    conditions = evaluate(node.conditions, results, now=now, boot_id=node.boot_id)
    health = worst(conditions)
    boot = node.vouched_boot
    for result in results:
        if result.check == BOOT and result.health is Health.HEALTHY:
            boot = node.boot_id
    if (conditions, health, boot) == (node.conditions, node.health, node.vouched_boot):
        return node, []
    after = evolve(node, conditions=conditions, health=health, vouched_boot=boot)
    if heartbeat_condition(after) is None:
        after = evolve(after, testimonies=())
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
    told = [r for r in results if r.lasting and r.health in bad and r.check not in known]
    if not told:
        return node, []
    conditions = evaluate(node.conditions, told, now=now, boot_id=boot_id)
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
    before: Mapping[str, Trait], inventory: Inventory, *, now: datetime
) -> dict[str, Trait]:
    """Return the traits of a node that registers; a trait that is not reported stays.

    A driver that does not load reports no version, and the driver of exactly that node must not be
    forgotten.
    """
    drivers = (gpu.driver_version for gpu in inventory.gpus if gpu.driver_version)
    reported = {
        DRIVER: next(drivers, ""),
        IMAGE: inventory.image or inventory.labels.get("image", ""),
        KERNEL: inventory.kernel_version,
        AGENT: inventory.agent_version,
    }
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
