"""The replacement loop of a pool: replacements that fall ill soon after they register.

A check that fails on every machine, a bad image or a bad driver makes each replacement as ill as
the node before it. After a few in a row the pool stops replacing, pauses, and tries one; each
further failure doubles the pause. The first replacement that stays well for the whole probation
ends it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from navarch.core.health import Health
from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.fleet.disruption.governor.domain_stats import fingerprints
from navarch.fleet.launch_breaker import Failure, LaunchBreaker, pause_after, strikes_of

PROBATION = timedelta(minutes=30)
"""A machine that falls ill this soon after it registered was not worth buying."""

REPLACEMENTS_MAX = 3
"""One bad host may be assigned twice in a row; three ill machines in a row have a common cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacementLoop(LaunchBreaker):
    """Why a pool pauses replacements, until when, and what its replacements suffered from."""

    faults: frozenset[str]
    """The faults that the ill replacements show."""

    def affects(self, node: Node) -> bool:
        """Return whether a replacement of `node` may end as the others did.

        A fault that no replacement has shown is cured by a replacement.
        """
        if fell_ill_at(node) is not None:
            return True
        shown = fingerprints(node)
        return not shown or not self.faults.isdisjoint(shown)


def find_replacement_loop(
    pool: Pool, nodes: Iterable[Node], *, now: datetime
) -> ReplacementLoop | None:
    """Return the replacement loop that `pool` is in, None if it is in none.

    `nodes` are all stored nodes of the pool, including those that are gone.
    """
    if pool.deleted:
        return None
    stored = list(nodes)
    failures = fallen_ill(pool, [node for node in stored if node.replaces is not None])
    if len(failures) < REPLACEMENTS_MAX:
        return None
    well_since = max((_registered(node) for node in stored if _is_proven(node, now)), default=None)
    if well_since is not None:
        failures = [each for each in failures if _registered(each.node) > well_since]
    if len(failures) < REPLACEMENTS_MAX:
        return None
    # From now on every machine is a trial, whether it replaces another or not.
    begun_at = failures[REPLACEMENTS_MAX - 1].at
    tried = [node for node in stored if node.replaces is not None or node.created_at >= begun_at]
    failures = [each for each in fallen_ill(pool, tried) if each.at >= failures[0].at]
    strikes, since = strikes_of(failures)
    until = since + pause_after(strikes)
    on_trial = [node for node in tried if _is_on_trial(node, now)]
    last = failures[-1]
    probation = f"{PROBATION.total_seconds() / 60:g} min"
    ill = (
        f"{len(failures)} replacements in a row fell ill within {probation} of registering, "
        f"at last {last.node.id}: {last.reason}"
    )
    release = f"`navarch held release --pool {pool.name}`"
    if now >= until and on_trial:
        ends = [(node.registered_at or node.created_at) + PROBATION for node in on_trial]
        until = max(min(ends), now)
        what = f"{on_trial[0].id} is tried next"
    else:
        what = f"the next is tried at {until:%H:%M:%S} UTC, or now with {release}"
    allowance = max((pool.gang or 1) - len(on_trial), 0) if now >= until else 0
    return ReplacementLoop(
        reason=f"{ill}; {what}",
        until=until,
        allowance=allowance,
        faults=frozenset(fault for each in failures for fault in fingerprints(each.node)),
    )


def fell_ill_at(node: Node) -> datetime | None:
    """Return when `node` fell ill, None unless that was within its probation."""
    if node.registered_at is None:
        return None
    moments = [each.since for each in node.conditions if each.health is Health.UNHEALTHY]
    if node.retiring is not None and not node.retiring.surplus and node.acted_at is not None:
        moments.append(node.acted_at)
    at = min(moments, default=None)
    return at if at is not None and at <= node.registered_at + PROBATION else None


def fallen_ill(pool: Pool, nodes: Iterable[Node]) -> Sequence[Failure]:
    """Return the nodes that fell ill within their probation, in that order."""
    since = pool.brake_released_at
    found = []
    for node in nodes:
        at = fell_ill_at(node)
        if at is None or (since is not None and at <= since):
            continue
        found.append(Failure(node=node, at=at, reason=_what_failed(node)))
    return sorted(found, key=lambda each: (each.at, each.node.id))


def _what_failed(node: Node) -> str:
    """Return the fault of `node` in words that stay the same while it is reported again."""
    if node.retiring is not None:
        return node.retiring.reason
    faults = [each for each in node.conditions if each.health is Health.UNHEALTHY]
    return min(faults, key=lambda each: (each.since, each.check)).reason


def _is_proven(node: Node, now: datetime) -> bool:
    """Return whether `node` stayed well for its whole probation."""
    if node.registered_at is None or fell_ill_at(node) is not None:
        return False
    left_at = node.since if node.gone or node.retiring is not None else now
    return left_at >= node.registered_at + PROBATION


def _is_on_trial(node: Node, now: datetime) -> bool:
    if not node.counts or fell_ill_at(node) is not None:
        return False
    if node.registered_at is None:
        return node.launch is not None
    return now < node.registered_at + PROBATION


def _registered(node: Node) -> datetime:
    assert node.registered_at is not None, node.id
    return node.registered_at
