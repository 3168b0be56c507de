"""The next step to set up a machine over SSH: run, wait, or abandon it."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from navarch.core.boot_report import REPORTS_MAX, BootReport
from navarch.core.bringup import BringUpLog
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.ids import Token
from navarch.core.launch import Progress, pause
from navarch.core.machine_setup import MachineSetup
from navarch.core.node import Node, Phase
from navarch.core.records import evolve

REDIAL = timedelta(seconds=5)
"""The pause between attempts to reach a machine before its SSH is up."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Log in and run the commands."""

    address: str
    attempt: int


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing to do before `until`."""

    until: datetime


class AbandonMachine(msgspec.Struct, frozen=True, kw_only=True):
    """Remove the machine; another one may come up."""

    reason: str


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing left to do until the agent registers."""


Step = Run | Wait | AbandonMachine | Finished


def next_step(
    setup: MachineSetup,
    node: Node,
    logs: Sequence[BringUpLog],
    *,
    unanswered_since: datetime | None,
    now: datetime,
) -> Step:
    """Return the next step for `node`, given the logs of attempts on its present machine.

    An attempt counts once a command ran. An unreachable machine is not abandoned before
    `answer_within` has passed since the first failed connection.
    """
    assert node.launch is not None, node.id
    mine = [log for log in logs if log.launch == node.launch.token]
    if any(log.succeeded for log in mine):
        return Finished()
    public, private = node.launch.public_address, node.launch.private_address
    address = (private or public) if setup.private_address else (public or private)
    if not address:
        deadline = node.since + setup.address_within
        if now >= deadline:
            return AbandonMachine(
                reason=f"the machine had no address within {setup.address_within}"
            )
        return Wait(until=deadline)
    if len(mine) >= setup.attempts_max:
        error = mine[-1].error or "the control plane ended before it did"
        times = "once" if len(mine) == 1 else f"{len(mine)} times"
        return AbandonMachine(reason=f"setting it up failed {times}: {error}")
    if unanswered_since is not None and now >= unanswered_since + setup.answer_within:
        return AbandonMachine(reason=f"SSH did not answer within {setup.answer_within}")
    if mine:
        last = mine[-1]
        again_at = (last.ended_at or last.started_at) + pause(len(mine))
        if now < again_at:
            return Wait(until=again_at)
    return Run(address=address, attempt=len(mine) + 1)


def progressed(node: Node, token: Token, step: str, *, now: datetime) -> Change | None:
    """Return the change that records a step of the set-up; None if the machine needs none."""
    launch = node.launch
    if launch is None or launch.token != token or node.phase is not Phase.BOOTING:
        return None
    launch = evolve(launch, progress=Progress(step=step, at=now))
    event = Event(at=now, about=about("node", node.id), kind="node.setting_up", reason=step)
    return Change(nodes=[evolve(node, launch=launch)], events=[event])


REPEAT = timedelta(seconds=20)
"""How long after a step the same step is no news."""


def reported(node: Node, report: BootReport, *, now: datetime) -> Change | None:
    """Return the change that records a report of a booting machine; None if it is no news.

    A failure is no progress: it is recorded beside the last step, and extends no wait. Neither does
    anything after `REPORTS_MAX` reports.
    """
    launch = node.launch
    if launch is None or node.phase is not Phase.BOOTING or node.registered_at is not None:
        return None
    before = launch.progress or Progress(step="", at=node.since)
    if before.reports >= REPORTS_MAX:
        return None
    step = report.step
    if report.failed:
        if step == before.failed:
            return None
        kind, after = "node.setup_failed", evolve(before, failed=step)
    else:
        if step == before.step and not before.failed and now - before.at < REPEAT:
            return None
        kind, after = "node.setting_up", Progress(step=step, at=now)
    after = evolve(after, reports=before.reports + 1)
    event = Event(at=now, about=about("node", node.id), kind=kind, reason=step)
    return Change(nodes=[evolve(node, launch=evolve(launch, progress=after))], events=[event])
