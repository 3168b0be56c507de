"""`navarch policy`: check, show, test and compare health policies."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import click
import msgspec

from navarch.cli.commands import Group
from navarch.cli.events import read_events
from navarch.cli.options import When, resolve_when, since_option
from navarch.cli.render.policy import render_comparison, render_policy, render_trial
from navarch.cli.render.table import count
from navarch.cli.session import Session, with_session
from navarch.config.policy import default_policy_text, load_policy
from navarch.core.errors import InvalidError
from navarch.core.event import Event, Recorded
from navarch.health.policy.counterfactual import PolicyOutcome, compare_policies
from navarch.health.policy.engine import Engine
from navarch.health.policy.policy import MachinePhase
from navarch.health.policy.trial import simulate_xid

FILE = click.Path(dir_okay=False)


@click.group("policy", cls=Group)
def policy() -> None:
    r"""Check, show, test and compare health policies.

    \b
    navarch policy show default > policy.yaml
    navarch policy check policy.yaml
    navarch policy diff default policy.yaml --since 30d

    FILE may be `default`, the built-in policy.
    """


@policy.command("check")
@click.argument("file", type=FILE)
@with_session
def check(session: Session, file: str) -> None:
    """Check whether the control plane accepts FILE, and list its errors."""
    found = load_policy(file)
    facts = {"file": file, "name": found.name, "rules": len(found.rules), "valid": True}
    number = count(len(found.rules), "rule")
    session.show(facts, lambda _: f'{file}: policy "{found.name}" is valid: {number}')


@policy.command("show")
@click.argument("file", type=FILE, default="default")
@with_session
def show(session: Session, file: str) -> None:
    """Show the rules of FILE, or of the built-in policy, in order of evaluation."""
    found = load_policy(file)
    if file == "default":
        session.show(found, lambda _: default_policy_text().rstrip("\n"))
        return
    session.show(found, lambda canvas: render_policy(found, canvas))


@policy.command("test")
@click.argument("file", type=FILE)
@click.option("--xid", "code", type=click.IntRange(1, 99_999), required=True, help="Error code.")
@click.option("--text", default="", help="Rest of the driver's log line.")
@click.option(
    "--phase",
    type=click.Choice([str(phase) for phase in MachinePhase]),
    default="busy",
    show_default=True,
    help="Phase of the machine.",
)
@click.option(
    "--sources",
    default="kmsg",
    show_default=True,
    help="Sources that saw the error, comma-separated.",
)
@click.option(
    "--times",
    type=click.IntRange(1, 1000),
    default=1,
    help="Number of occurrences, one second apart.",
)
@with_session
def test(
    session: Session, file: str, code: int, text: str, phase: str, sources: str, times: int
) -> None:
    """Show how FILE judges an XID error."""
    engine = Engine(load_policy(file))
    now = session.clock.now()
    outcomes: list[PolicyOutcome] = []
    broken: tuple[str, ...] = ()
    for second in range(times):
        at = now + timedelta(seconds=second)
        seen = simulate_xid(code, text, at=at, phase=MachinePhase(phase), sources=sources)
        verdict = engine.judge(seen)
        engine.note(verdict)
        broken = verdict.broken
        outcomes.append(
            PolicyOutcome(
                health=verdict.health, fatal=verdict.fatal, action=verdict.action, rule=verdict.rule
            )
        )
    session.show(outcomes, lambda _: render_trial(outcomes, broken))


@policy.command("diff")
@click.argument("old", type=FILE)
@click.argument("new", type=FILE)
@since_option("Start: 30d, 2026-03-01 or 2026-03-01T12:00:00Z.", default="30d")
@click.option(
    "--events",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read events from this file, saved by: navarch events --since 30d -o json.",
)
@with_session
def diff(session: Session, old: str, new: str, since: When, file: Path | None) -> None:
    """Compare the actions that OLD and NEW would have taken on past events.

    Both policies judge every event of the journal, in the state of the node at that time.
    """
    policies = load_policy(old), load_policy(new)
    start = resolve_when(since, session.clock.now())
    if file is None:
        # Rules that count occurrences need the events before the start.
        first = start - max(policy.memory for policy in policies)
        found: Sequence[Recorded] = session.call(lambda api: read_events(api, None, first, None))
    else:
        try:
            found = msgspec.json.decode(file.read_bytes(), type=list[Recorded])
        except msgspec.DecodeError as error:
            raise InvalidError(f"{file} is not JSON from `navarch events`: {error}") from error
    events: list[Event] = [entry.event for entry in found]
    comparison = compare_policies(*policies, events, start=start)
    session.show(comparison, lambda canvas: render_comparison(comparison, *policies, canvas))
