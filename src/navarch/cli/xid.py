"""`navarch xid`: explain NVIDIA XID and SXid errors, and find them in logs."""

import sys
from typing import BinaryIO

import click

from navarch.cli.commands import Command, Group
from navarch.cli.session import Session, with_session
from navarch.cli.xid_log import write_xids_as_json
from navarch.health.xid.assessment import Assessment, assess
from navarch.health.xid.catalogue import Kind, driver_branch

SXIDS_FROM = 10_000
"""Codes from here on are SXids, of NVSwitches."""


class _XidGroup(Group):
    """A group that accepts a number in place of a command name."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command `cmd_name`, or `explain` for a number."""
        if cmd_name.isascii() and cmd_name.isdecimal():
            return explain
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command for `args`; a number is also the argument of `explain`."""
        if self.get_command(ctx, args[0]) is None:
            ctx.fail(
                f"{args[0]!r} is not an error code. Pass a number, such as `navarch xid 79`, or "
                "search a log: `navarch xid parse FILE`"
            )
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, args if command is explain else rest


@click.group("xid", cls=_XidGroup, subcommand_metavar="CODE | parse FILE")
def xid() -> None:
    r"""Explain NVIDIA XID and SXid error codes, and find them in logs.

    \b
    navarch xid 79
    dmesg | navarch xid parse -
    """


@click.command("explain", cls=Command)
@click.argument("code", type=click.IntRange(min=1, max=99_999))
@click.argument("text", nargs=-1)
@click.option("--driver", default="", metavar="VERSION", help="Explain for this driver version.")
@with_session
def explain(session: Session, code: int, text: tuple[str, ...], driver: str) -> None:
    """Explain an XID or SXid and how Navarch handles it; TEXT is the rest of its log line."""
    kind = Kind.SXID if code >= SXIDS_FROM else Kind.XID
    assessment = assess(kind, code, " ".join(text), branch=driver_branch(driver))
    session.show(assessment, lambda _: _describe(assessment))


@xid.command("parse")
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--driver", default="", metavar="VERSION", help="Explain for this driver version.")
def parse(file: BinaryIO, driver: str) -> None:
    """Print a JSON line for every XID and SXid in a log; - is standard input."""
    write_xids_as_json(file, sys.stdout.buffer, branch=driver_branch(driver))


def _describe(assessment: Assessment) -> str:
    entry = assessment.entry
    number = f"{entry.kind.label} {entry.code}"
    drivers = ""
    if entry.since is not None:
        until = f" to R{entry.until}" if entry.until else " and later"
        drivers = f"R{entry.since}{until}"
    lines = [f"{number}: {entry.meaning}" + (f" ({entry.mnemonic})" if entry.mnemonic else "")]
    facts = {
        "action": assessment.action.words + (f" ({assessment.why})" if assessment.why else ""),
        "fatal": "yes: the GPU is not used until the action is done" if assessment.fatal else "no",
        "node health": str(assessment.health),
        "origin": f"{entry.origin}, {entry.severity}",
        "drivers": drivers,
    }
    lines += [f"  {name + ':':<14}{words}" for name, words in facts.items() if words]
    return "\n".join([*lines, *([f"  {entry.advice}"] if entry.advice else [])])
