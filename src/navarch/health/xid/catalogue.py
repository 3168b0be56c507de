"""The catalogue of XIDs and SXids, used by agent, control plane, simulator and CLI."""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources


class Action(StrEnum):
    """The action for an error. `DYNAMIC` means the driver's recovery action decides."""

    NONE = "none"
    RESTART_APP = "restart_app"
    DYNAMIC = "dynamic"
    CHECK_FABRIC = "check_fabric"
    RESET_GPU = "reset_gpu"
    REBOOT_NODE = "reboot_node"
    REPLACE = "replace"

    @property
    def words(self) -> str:
        """The action in words, for operators."""
        return _WORDS[self]


_WORDS = {
    Action.NONE: "nothing",
    Action.RESTART_APP: "restart the application",
    Action.DYNAMIC: "follow the driver's recovery action",
    Action.CHECK_FABRIC: "check the NVLink fabric",
    Action.RESET_GPU: "reset the GPU",
    Action.REBOOT_NODE: "reboot the node",
    Action.REPLACE: "replace the node",
}

_RANK = {action: rank for rank, action in enumerate(Action)}


def strongest(*actions: Action) -> Action:
    """Return the most drastic of the actions."""
    return max(actions, key=_RANK.__getitem__, default=Action.NONE)


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


SXIDS_FROM = 10_000


def kind_of(code: int) -> Kind:
    """Return the kind of a code; the numbers of XIDs and SXids do not overlap."""
    return Kind.SXID if code >= SXIDS_FROM else Kind.XID


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


@cache
def xids() -> Mapping[int, Entry]:
    """Return every XID by its code."""
    found: dict[int, Entry] = {}
    for row in rows("xid.csv"):
        code = int(row["code"])
        found[code] = Entry(
            kind=Kind.XID,
            code=code,
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
    return found


@cache
def sxids() -> Mapping[int, Entry]:
    """Return every SXid by its code since R550."""
    found: dict[int, Entry] = {}
    for row in rows("sxid.csv"):
        code, mnemonic = int(row["code"]), row["mnemonic"]
        found[code] = Entry(
            kind=Kind.SXID,
            code=code,
            mnemonic=mnemonic,
            meaning=row["prints"] or mnemonic.removeprefix("HW_").replace("_", " ").lower(),
            origin=Origin.FABRIC,
            severity=row["severity"],
            action=Action(row["action"]),
            fatal=row["fatal"] == "true",
            advice="The severity word in the line counts for more than this row.",
        )
    return found


def find_xid(code: int, *, branch: int | None = None) -> Entry:
    """Return the entry of an XID; `unknown` if the catalogue or the driver lacks it."""
    entry = xids().get(code)
    if entry is None:
        return unknown(Kind.XID, code)
    if branch is not None and not (entry.since or 0) <= branch <= (entry.until or branch):
        return unknown(Kind.XID, code)
    return entry


def find_sxid(code: int, *, text: str = "", branch: int | None = None) -> Entry:
    """Return the entry of an SXid, for any driver.

    Before R550, multicast errors were 28000 to 28006 and reduction errors 29000 to 29006, a
    thousand less than now. The text distinguishes them, else the driver's branch.
    """
    current = code
    if 28000 <= code <= 29006:
        if "MC " in text:
            current = 29000 + code % 1000
        elif "Red " in text:
            current = 30000 + code % 1000
        elif branch is not None and branch < RENUMBERED_AT:
            current = code + 1000
    return sxids().get(current) or unknown(Kind.SXID, code)


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
