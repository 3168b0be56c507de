"""`navarch policy`: check, show, try and compare rules for health events."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import click
import msgspec

from navarch.cli.commands import Group
from navarch.cli.events import read_events
from navarch.cli.options import When, resolve_when, since_option
from navarch.cli.render.policy import render_comparison, render_policy, render_trial
from navarch.cli.session import Session, with_session
from navarch.config.policy import default_policy_text, load_policy
from navarch.core.errors import InvalidError
from navarch.core.event import Event, Recorded
from navarch.core.health import CheckResult
from navarch.core.ids import NodeId
from navarch.core.node import Node, Phase
from navarch.health.checks.xid import judge_xid, label, say
from navarch.health.policy.counterfactual import Outcome, compare_policies
from navarch.health.policy.engine import Engine
from navarch.health.policy.occurrence import Occurrence
from navarch.health.policy.phase import MachinePhase

FILE = click.Path(dir_okay=False)


@click.group("policy", cls=Group)
def policy() -> None:
    r"""Check, show, try and compare policies: rules for what health events mean.

    \b
    navarch policy show default > policy.yaml
    navarch policy check policy.yaml
    navarch policy diff default policy.yaml --since 30d

    Where a FILE is asked for, `default` is the policy that Navarch brings along.
    """


@policy.command("check")
@click.argument("file", type=FILE)
@with_session
def check(session: Session, file: str) -> None:
    """Say whether the control plane would accept FILE, and what is wrong with it."""
    found = load_policy(file)
    count = len(found.rules)
    facts = {"file": file, "name": found.name, "rules": count, "valid": True}
    number = "1 rule" if count == 1 else f"{count} rules"
    session.show(facts, lambda _: f'{file}: policy "{found.name}" is valid: {number}')


@policy.command("show")
@click.argument("file", type=FILE, default="default")
@with_session
def show(session: Session, file: str) -> None:
    """Show the rules of FILE in the order in which they are tried; the built-in ones by default."""
    found = load_policy(file)
    if file == "default":
        session.show(found, lambda _: default_policy_text().rstrip("\n"))
        return
    session.show(found, lambda canvas: render_policy(found, canvas))


@policy.command("test")
@click.argument("file", type=FILE)
@click.option("--xid", "code", type=click.IntRange(1, 99_999), required=True, help="The error.")
@click.option("--text", default="", help="The rest of the driver's line.")
@click.option(
    "--phase",
    type=click.Choice([str(phase) for phase in MachinePhase]),
    default="busy",
    show_default=True,
    help="What the machine is at.",
)
@click.option("--sources", default="kmsg", show_default=True, help="Who saw it, with commas.")
@click.option("--times", type=click.IntRange(1, 1000), default=1, help="So often, a second apart.")
@with_session
def test(
    session: Session, file: str, code: int, text: str, phase: str, sources: str, times: int
) -> None:
    """Say what FILE makes of an XID, without any machine having to break."""
    engine = Engine(load_policy(file))
    now = session.clock.now()
    outcomes: list[Outcome] = []
    broken: tuple[str, ...] = ()
    for second in range(times):
        seen = _made_up(code, text, sources, MachinePhase(phase), now + timedelta(seconds=second))
        verdict = engine.judge(seen)
        engine.note(verdict)
        broken = verdict.broken
        outcomes.append(
            Outcome(
                health=verdict.health, fatal=verdict.fatal, action=verdict.action, rule=verdict.rule
            )
        )
    session.show(outcomes, lambda _: render_trial(outcomes, broken))


def _made_up(code: int, text: str, sources: str, phase: MachinePhase, at: datetime) -> Occurrence:
    ruling = judge_xid(code, text)
    result = CheckResult(
        check=f"xid/{code}/GPU-0",
        health=ruling.health,
        reason=f"{label(code)} on GPU 0: {say(ruling, text)}",
        fatal=ruling.fatal,
        lasting=True,
        action=str(ruling.action),
        facts={
            "code": str(code),
            "class": str(ruling.entry.origin),
            "gpu": "GPU-0",
            "gpu_index": "0",
            "text": text,
            "sources": sources,
            "pid": str(at.second),
        },
    )
    node = Node(id=NodeId("node-0"), pool=None, phase=Phase.READY, since=at, created_at=at)
    return Occurrence(result=result, node=node, at=at, phase=phase)


@policy.command("diff")
@click.argument("old", type=FILE)
@click.argument("new", type=FILE)
@since_option("From when on: 30d, 2026-03-01 or 2026-03-01T12:00:00Z.", default="30d")
@click.option(
    "--events",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A journal saved by `navarch events --since 30d -o json`, instead of a server.",
)
@with_session
def diff(session: Session, old: str, new: str, since: When, file: Path | None) -> None:
    """Say which actions history would have seen under NEW, compared with OLD.

    The events are those that the control plane has written down; each is judged by both
    policies, under the circumstances of its time.
    """
    policies = load_policy(old), load_policy(new)
    start = resolve_when(since, session.clock.now())
    if file is None:
        # What rules count began before what they are asked about.
        first = start - max(policy.memory for policy in policies)
        found: Sequence[Recorded] = session.call(lambda api: read_events(api, None, first, None))
    else:
        found = _saved(file)
    events: list[Event] = [entry.event for entry in found]
    comparison = compare_policies(*policies, events, start=start)
    session.show(comparison, lambda canvas: render_comparison(comparison, *policies, canvas))


def _saved(file: Path) -> list[Recorded]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[Recorded])
    except msgspec.DecodeError as error:
        raise InvalidError(f"{file} is not a saved journal: {error}") from error
