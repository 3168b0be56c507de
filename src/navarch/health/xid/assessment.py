"""The assessment of one reported error: from the catalogue first, then from the line's text."""

import re
from dataclasses import dataclass

from navarch.core.health import Health
from navarch.health.xid.catalogue import Action, Entry, Kind, Origin, find_sxid, find_xid
from navarch.health.xid.nvlink import explain_74, read_nvlink5
from navarch.health.xid.recovery import parse_recovery, required_recovery


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """The health, action and severity of one error, with the reason."""

    entry: Entry
    action: Action
    fatal: bool
    health: Health
    why: str = ""
    """The part of the text that changed or refined the catalogue's decision."""


_BY_WORDS = {
    # A remap may be pending a reset, or impossible.
    64: (
        (
            r"table is full|all reserved rows|no (?:more )?spare|HW limit|full inforom",
            Action.REPLACE,
            "no spare rows are left",
        ),
        (
            r"already pending|pending (?:row remap|bank remap|LTS swap)",
            Action.RESET_GPU,
            "the remap waits for a reset",
        ),
        (
            r"\binternal\b.*\berror\b",
            Action.RESET_GPU,
            "an internal error: reset and check again",
        ),
    ),
    # The text names what activates the repair, which can wait until the next drain.
    160: (
        ("node reboot", Action.REBOOT_NODE, "a reboot activates the repair"),
        ("gpu reset", Action.RESET_GPU, "a reset activates the repair"),
    ),
}
"""The action and the reason that words of the text call for, by XID; the first match counts."""
_NVLINK5 = frozenset(range(144, 151))
_DECIDED_BY_TEXT = frozenset({51, 74, 154, *_BY_WORDS, *_NVLINK5})


def assess(kind: Kind, code: int, text: str = "", *, branch: int | None = None) -> Assessment:
    """Return the assessment of an error. Without text, the catalogue alone decides."""
    if kind is Kind.SXID:
        return _assess_sxid(find_sxid(code, text=text, branch=branch), text)
    entry = find_xid(code, branch=branch)
    if code not in _DECIDED_BY_TEXT:
        return _assessment(entry)
    if code in _NVLINK5:
        return _assess_nvlink5(entry, text, branch)
    if code == 154:
        return _assess_recovery(entry, text)
    if code == 74:
        return _assessment(entry, why=explain_74(text))
    if code == 51 and text and "BAD_TSG" not in text:
        # Recent drivers reused the code, and only their meaning needs an action.
        why = "an older driver's meaning of the code"
        return _assessment(entry, action=Action.NONE, fatal=False, why=why)
    for words, action, why in _BY_WORDS.get(code, ()):
        if re.search(words, text, re.IGNORECASE):
            return _assessment(entry, action=action, why=why)
    return _assessment(entry)


def _assessment(
    entry: Entry,
    *,
    action: Action | None = None,
    fatal: bool | None = None,
    why: str = "",
) -> Assessment:
    is_fatal = entry.fatal if fatal is None else fatal
    severity = entry.severity if fatal is None or is_fatal else "warning"
    health = Health.DEGRADED
    if is_fatal:
        health = Health.UNHEALTHY
    elif severity == "info" or entry.origin in (Origin.APP, Origin.INFO):
        health = Health.HEALTHY
    return Assessment(
        entry=entry,
        action=entry.action if action is None else action,
        fatal=is_fatal,
        health=health,
        why=why,
    )


def _assess_recovery(entry: Entry, text: str) -> Assessment:
    """154: the driver's recovery action, by number."""
    number = parse_recovery(text)
    if number is None:
        return _assessment(entry)
    wanted = required_recovery(number)
    calm = wanted.action is Action.NONE
    return Assessment(
        entry=entry,
        action=wanted.action,
        fatal=wanted.fatal,
        health=Health.UNHEALTHY if wanted.fatal else Health.HEALTHY if calm else Health.DEGRADED,
        why=f"the driver requires {wanted.words}" if not calm else wanted.words,
    )


def is_decided_by_number(kind: Kind, code: int) -> bool:
    """Return whether the assessment depends on the code alone."""
    return kind is Kind.XID and code not in _DECIDED_BY_TEXT


def decisive(kind: Kind, code: int, text: str) -> str:
    """Return the part of the text that decides the assessment; empty for most codes.

    Errors with equal code and equal decisive text have equal assessments.
    """
    if is_decided_by_number(kind, code):
        return ""
    if code not in _NVLINK5:
        return text
    second = text.find(" ", text.find("(") + 1)
    end = text.find(" ", second + 1)
    return text if second < 0 or end < 0 or "(" not in text else text[:end]


def _assess_nvlink5(entry: Entry, text: str, branch: int | None) -> Assessment:
    reading = read_nvlink5(entry.code, text, branch=branch)
    if reading is None:
        return _assessment(entry)
    link = "" if reading.link is None or reading.link < 0 else f" on link {reading.link}"
    how = "by its registers" if reading.decoded else "by its severity, no rule fits its registers"
    return _assessment(
        entry, action=reading.action, fatal=reading.fatal, why=f"{reading.unit}{link}, {how}"
    )


def _assess_sxid(entry: Entry, text: str) -> Assessment:
    """SXids: follow the printed severity, since it differs between switches for the same code."""
    if text.startswith("Fatal"):
        action = Action.CHECK_FABRIC if entry.action is Action.NONE else entry.action
        return _assessment(entry, action=action, fatal=True, why="the switch calls it fatal")
    if text.startswith(("Non-fatal", "Nonfatal", "Correctable")):
        return _assessment(
            entry, action=Action.NONE, fatal=False, why="the switch calls it non-fatal"
        )
    return _assessment(entry)
