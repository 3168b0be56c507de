"""`navarch xid`: explain NVIDIA XID and SXid errors, and find them in logs."""

import asyncio
import re
import sys
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import click
import msgspec

from navarch.cli.commands import Command, Group
from navarch.cli.errors import describe_error, refuse_over_grpc
from navarch.cli.output import as_data
from navarch.cli.session import Session, with_session
from navarch.core.errors import NavarchError, NotFoundError
from navarch.core.health import describe_outcome
from navarch.health.xid.assessment import Assessment, assess, decisive, is_decided_by_number
from navarch.health.xid.catalogue import Kind, driver_branch
from navarch.health.xid.line import ADDRESS, LineReader, XidLine, read_details
from navarch.ports.policies import PolicyApi, XidRuling

ANSWER_WITHIN_S = 5.0
"""The catalogue is of use without the server, so it is not waited for."""

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
    """Explain an XID or SXid and what the policies of the fleet do about it.

    TEXT is the rest of its log line. Without a server, only the catalogue is shown.
    """
    kind = Kind.SXID if code >= SXIDS_FROM else Kind.XID
    words = " ".join(text)
    assessment = assess(kind, code, words, branch=driver_branch(driver))
    rulings, missing = _ask_fleet(session, code, words)
    described = "\n".join([_describe(assessment), *_describe_fleet(rulings, missing)])
    session.show({**_as_dict(assessment), "fleet": rulings}, lambda _: described)


def _ask_fleet(session: Session, code: int, text: str) -> tuple[Sequence[XidRuling], str]:
    """Return what the policies of the fleet do, or nothing and the reason."""

    async def judge() -> Sequence[XidRuling]:
        async with asyncio.timeout(ANSWER_WITHIN_S), session.connect() as api:
            if isinstance(api, PolicyApi):
                return await api.judge_xid(code, text)
            return refuse_over_grpc("policies are")

    try:
        return session.environment.run(judge()), ""
    except NotFoundError:
        return (), f"{session.server} is older than this command line"
    except (NavarchError, OSError, TimeoutError) as error:
        return (), str(describe_error(error).message)


def _describe_fleet(rulings: Sequence[XidRuling], missing: str) -> Iterator[str]:
    if missing:
        yield f"  {'this fleet:':<14}unknown ({missing})"
    for ruling in rulings:
        outcome = describe_outcome(ruling.health, fatal=ruling.fatal, action=ruling.action)
        where = f"pools {', '.join(ruling.pools)}" if ruling.pools else "this fleet"
        condition = f"{ruling.phase} machine" if ruling.times == 1 else f"{ruling.times} times"
        decided = f"rule {ruling.rule} of policy {ruling.policy}" if ruling.rule else "no rule"
        yield f"  {where + ':':<13} {outcome} ({condition}; {decided})"


def _as_dict(assessment: Assessment) -> dict[str, object]:
    data = as_data(assessment)
    assert isinstance(data, dict)
    return data


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


CHUNK_BYTES = 1 << 18
LINE_BYTES_MAX = 1 << 20
"""Longer lines, as in a binary file, are truncated to this."""
REMEMBERED_MAX = 10_000

_USUAL = re.compile(
    r"(?:[0-7],\d+,\d+,[^;]*;)?"
    r"(?:[A-Z][a-z]{2} [ \d]\d [\d:]{8} [\w.-]+ kernel: )?"
    r"(?:\[ *\d+\.\d+\] )?"
    rf"(NVRM: |nvidia-nvswitch\d+:? S)Xid \(PCI:({ADDRESS})(?: GPU-I:\d+)?(?: GPU-CI:\d+)?\): "
    # Characters that need no escape in a JSON string
    r"([ !#-\[\]-~]*)"
)


class XidLogParser:
    """Parses one log chunk by chunk, for one driver branch."""

    def __init__(self, *, branch: int | None = None) -> None:
        self._reader = LineReader()
        self._decisions = {kind: _Decisions(kind, branch) for kind in Kind}
        of_gpus, of_switches = (_Parts(kind, self._decisions[kind]) for kind in Kind)
        self._parts = {"NVRM: ": of_gpus}
        self._of_switches = of_switches
        self._number = 0

    def read(self, text: str) -> list[str]:
        """Return a JSON line for every line of `text` that reports an error, in order."""
        found_lines: list[str] = []
        append = found_lines.append
        usual, parts_of, of_switches = _USUAL.fullmatch, self._parts.get, self._of_switches
        number = self._number
        for number, line in enumerate(text.split("\n"), start=number + 1):  # noqa: B020
            if "Xid (" in line:
                found = usual(line)
                if found is not None:
                    driver, pci, words = found.groups()
                    parts = parts_of(driver, of_switches)[words]
                    if parts is not None:
                        append(f'{{"line":{number},{parts[0]}"pci":"{pci}",{parts[1]}')
                    continue
            elif "NVRM: " not in line and line[:1] != "{":
                continue
            odd = self._reader.read(line.rstrip())
            if odd is not None:
                append(self._encode(number, odd))
        self._number = number
        return found_lines

    def _encode(self, number: int, found: XidLine) -> str:
        kind, code, pci, pid, name, text, _, _ = found
        action, fatal = self._decisions[kind][code, decisive(kind, code, text)]
        whole = {
            "line": number,
            "code": code,
            "kind": kind.value,
            "pci": pci,
            "pid": pid,
            "name": name,
            "text": text,
            "action": action,
            "fatal": fatal,
        }
        return msgspec.json.encode(whole).decode() + "\n"


def write_xids_as_json(file: BinaryIO, out: BinaryIO, *, branch: int | None = None) -> None:
    """Write a JSON line for every error in `file`, flushing after each chunk."""
    log, rest = XidLogParser(branch=branch), b""
    read = getattr(file, "read1", file.read)
    while chunk := read(CHUNK_BYTES):
        whole, newline, after = chunk.rpartition(b"\n")
        if not newline:
            rest = (rest + after)[:LINE_BYTES_MAX]
            continue
        out.write("".join(log.read((rest + whole).decode("utf-8", "replace"))).encode())
        out.flush()
        rest = after
    out.write("".join(log.read(rest.decode("utf-8", "replace"))).encode())
    out.flush()


class _Decisions(dict[tuple[int, str], tuple[str, bool]]):
    """A cache of (action, fatal) by (code, deciding text)."""

    def __init__(self, kind: Kind, branch: int | None) -> None:
        super().__init__()
        self._kind = kind
        self._branch = branch

    def __missing__(self, key: tuple[int, str]) -> tuple[str, bool]:
        if len(self) >= REMEMBERED_MAX:
            self.clear()
        assessment = assess(self._kind, *key, branch=self._branch)
        self[key] = decided = assessment.action.value, assessment.fatal
        return decided


class _Parts(dict[str, tuple[str, str] | None]):
    """A cache of the JSON around the address, by the text after it; None if it is no error."""

    def __init__(self, kind: Kind, decisions: _Decisions) -> None:
        super().__init__()
        self._kind = kind
        self._decisions = decisions
        self._numbers: dict[str, tuple[int, str]] = {}
        self._endings: dict[str, str] = {}
        """The end of the JSON line for codes that are decided without their text."""

    def __missing__(self, words: str) -> tuple[str, str] | None:
        if len(self) >= REMEMBERED_MAX:
            self.clear()
        self[words] = parts = self._read_plain(words) or self._read_any(words)
        return parts

    def _read_plain(self, words: str) -> tuple[str, str] | None:
        """Parse words separated by single commas and spaces; return None for any other format."""
        number, _, rest = words.partition(", ")
        known = self._numbers.get(number)
        if known is None or "  " in words:
            return None
        pid = name = "null"
        if rest.startswith("pid="):
            pid, _, rest = rest[4:].partition(", ")
            if not pid.isdecimal() or pid[0] == "0":
                return None
        if rest.startswith("name="):
            name, _, rest = rest[5:].partition(", ")
            if not name.isalnum():
                return None
            name = f'"{name}"'
        code, head = known
        ending = self._endings.get(number) or self._ending(code, rest)
        return head, f'"pid":{pid},"name":{name},"text":"{rest.strip()}",{ending}'

    def _read_any(self, words: str) -> tuple[str, str] | None:
        details = read_details(self._kind, words)
        if details is None:
            return None
        kind, (code, pid, name, text) = self._kind, details
        head = f'"code":{code},"kind":"{kind.value}",'
        ending = self._ending(code, text)
        number = words.partition(", ")[0]
        if number == str(code):
            self._numbers[number] = code, head
            if is_decided_by_number(kind, code):
                self._endings[number] = ending
        named = "null" if name is None else f'"{name}"'
        ours = f'"pid":{"null" if pid is None else pid},"name":{named},"text":"{text}",'
        return head, ours + ending

    def _ending(self, code: int, text: str) -> str:
        action, fatal = self._decisions[code, decisive(self._kind, code, text)]
        return f'"action":"{action}","fatal":{"true" if fatal else "false"}}}\n'
