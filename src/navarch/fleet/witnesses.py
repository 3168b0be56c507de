"""Testimonies about silent nodes: when an observation proves that a machine is dead."""

from datetime import datetime, timedelta

from navarch.core.instance import InstanceCheck, InstanceHealth
from navarch.core.node import Node, Phase
from navarch.core.witness import Testimony
from navarch.fleet.silence import heartbeat_condition
from navarch.ports.witness import Observation

PROOF_AFTER = timedelta(minutes=1)
"""How long a machine must be observed as dead before that proves anything. A status check that
failed once, or a machine that is just being restarted, proves nothing."""

OVERLAP_MAX = timedelta(minutes=2)
"""How long a dying machine may still report after a witness has found it dead."""

_DEAD = (InstanceHealth.IMPAIRED, InstanceHealth.STOPPED, InstanceHealth.TERMINATED)


def is_silent(node: Node) -> bool:
    """Return whether witnesses are asked about `node`."""
    return heartbeat_condition(node) is not None and node.phase in (Phase.READY, Phase.DRAINING)


def observation_of(check: InstanceCheck) -> Observation:
    """Return what a provider's check of a machine shows.

    A machine that the provider runs may have crashed inside: only a response of its own operating
    system proves that it works.
    """
    alive = True if check.health is InstanceHealth.RESPONDING else None
    if check.health in _DEAD:
        alive = False
    return Observation(alive=alive, reason=check.reason, since=check.since)


def testify(
    witness: str,
    observed: Observation,
    *,
    before: Testimony | None,
    last_report: datetime | None,
    now: datetime,
) -> Testimony:
    """Return the testimony of `witness`, whose previous testimony is `before`.

    It proves a machine dead once that was observed for `PROOF_AFTER`, and not if the agent sent its
    `last_report` while the machine was observed as dead: then it works in spite of that.
    """
    since = now if observed.since is None else min(observed.since, now)
    if observed.since is None and before is not None and _is_repeated(observed, before):
        since = before.since
    alive, reason = observed.alive, observed.reason
    if alive is False and last_report is not None and since + OVERLAP_MAX < last_report:
        alive, reason = None, f"{reason}, but the agent reported after that"
    elif alive is False and now < since + PROOF_AFTER:
        alive = None
    return Testimony(witness=witness, alive=alive, reason=reason, since=since)


def _is_repeated(observed: Observation, before: Testimony) -> bool:
    return before.reason == observed.reason or (before.alive is False and observed.alive is False)


def with_testimony(node: Node, witness: str, testimony: Testimony | None) -> tuple[Testimony, ...]:
    """Return the testimonies about `node` after `witness` has given this one, or none."""
    others = [each for each in node.testimonies if each.witness != witness]
    if testimony is not None:
        others.append(testimony)
    return tuple(sorted(others, key=lambda each: each.witness))
