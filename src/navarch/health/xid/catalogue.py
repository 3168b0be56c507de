"""The catalogue of XIDs and SXids, used by agent, control plane, simulator and CLI."""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources

from navarch.core.health import Health
from navarch.health.xid.action import Action

RENUMBERED_AT = 550
"""Since this driver branch, multicast and reduction errors have other SXids."""


class Kind(StrEnum):
    """The device that reports the code: a GPU or an NVSwitch."""

    XID = "xid"
    SXID = "sxid"

    @property
    def label(self) -> str:
        """The kind in NVIDIA's spelling."""
        return "XID" if self is Kind.XID else "SXid"


class Origin(StrEnum):
    """The likely origin of an error, from its code alone."""

    APP = "app"
    DRIVER = "driver"
    FIRMWARE = "firmware"
    HARDWARE = "hardware"
    FABRIC = "fabric"
    MIXED = "mixed"
    INFO = "info"
    UNUSED = "unused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The meaning of one code, before the line's text is read."""

    kind: Kind
    code: int
    mnemonic: str
    meaning: str
    origin: Origin
    severity: str
    action: Action
    fatal: bool
    """Whether the GPU must not be used until the action has been taken."""
    since: int | None = None
    """The first driver branch that prints it, if known, such as 565."""
    until: int | None = None
    advice: str = ""

    def known_to(self, branch: int | None) -> bool:
        """Return whether drivers of `branch` use the code with this meaning."""
        if branch is None:
            return True
        return (self.since or 0) <= branch <= (self.until or branch)


def health_of(origin: Origin, severity: str, *, fatal: bool) -> Health:
    """Return the health of hardware that reports such an error."""
    if fatal:
        return Health.UNHEALTHY
    if severity == "info" or origin in (Origin.APP, Origin.INFO):
        return Health.HEALTHY
    return Health.DEGRADED


@cache
def xids() -> Mapping[int, Entry]:
    """Return every XID by its code."""
    return {entry.code: entry for entry in map(_xid, rows("xid.csv"))}


@cache
def sxids() -> Mapping[int, Entry]:
    """Return every SXid by its code since R550."""
    return {entry.code: entry for entry in map(_sxid, rows("sxid.csv"))}


def find_xid(code: int, *, branch: int | None = None) -> Entry:
    """Return the entry of an XID; `unknown` if the catalogue or the driver lacks it."""
    entry = xids().get(code)
    return entry if entry is not None and entry.known_to(branch) else unknown(Kind.XID, code)


def find_sxid(code: int, *, text: str = "", branch: int | None = None) -> Entry:
    """Return the entry of an SXid, for any driver."""
    return sxids().get(_current_code(code, text, branch)) or unknown(Kind.SXID, code)


@cache
def unknown(kind: Kind, code: int) -> Entry:
    """Return the entry for an undescribed code: a warning, never a cordon."""
    return Entry(
        kind=kind,
        code=code,
        mnemonic="",
        meaning="not in the catalogue",
        origin=Origin.UNKNOWN,
        severity="warning",
        action=Action.DYNAMIC if kind is Kind.XID else Action.NONE,
        fatal=False,
        advice="A newer driver may have added it. The driver's recovery action decides.",
    )


def driver_branch(version: str) -> int | None:
    """Return the branch of a driver version: 580 for 580.159.04."""
    head = version.partition(".")[0]
    return int(head) if head.isascii() and head.isdecimal() else None


def rows(name: str) -> Iterator[dict[str, str]]:
    """Yield the rows of one of the package's CSV files."""
    file = resources.files("navarch.health.xid").joinpath("data", name)
    with file.open(encoding="utf-8") as lines:
        yield from csv.DictReader(lines)


def _current_code(code: int, text: str, branch: int | None) -> int:
    """Return the code since R550 for what `code` meant.

    Before, multicast errors were 28000 to 28006 and reduction errors 29000 to 29006, a thousand
    less than now. The text distinguishes them, else the driver's branch.
    """
    if not 28000 <= code <= 29006:
        return code
    if text.find("MC ") >= 0:
        return 29000 + code % 1000
    if text.find("Red ") >= 0:
        return 30000 + code % 1000
    return code + 1000 if branch is not None and branch < RENUMBERED_AT else code


def _xid(row: Mapping[str, str]) -> Entry:
    return Entry(
        kind=Kind.XID,
        code=int(row["code"]),
        mnemonic=row["mnemonic"],
        meaning=row["meaning"],
        origin=Origin(row["class"]),
        severity=row["severity"],
        action=Action(row["action"]),
        fatal=row["fatal"] == "true",
        since=int(row["since"] or 0) or None,
        until=int(row["until"] or 0) or None,
        advice=row["advice"],
    )


def _sxid(row: Mapping[str, str]) -> Entry:
    return Entry(
        kind=Kind.SXID,
        code=int(row["code"]),
        mnemonic=row["mnemonic"],
        meaning=row["prints"] or row["mnemonic"].removeprefix("HW_").replace("_", " ").lower(),
        origin=Origin.FABRIC,
        severity=row["severity"],
        action=Action(row["action"]),
        fatal=row["fatal"] == "true",
        advice="The severity word in the line counts for more than this row.",
    )
