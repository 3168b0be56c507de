"""The assessment of one reported error: from the catalogue first, then from the line's text."""

import re
from dataclasses import dataclass

from navarch.core.health import Health
from navarch.health.xid.action import Action
from navarch.health.xid.catalogue import Entry, Kind, Origin, find_sxid, find_xid, health_of
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


def assess(kind: Kind, code: int, text: str = "", *, branch: int | None = None) -> Assessment:
    """Return the assessment of an error. Without text, the catalogue alone decides."""
    if kind is Kind.SXID:
        return _assess_sxid(find_sxid(code, text=text, branch=branch), text)
    entry = find_xid(code, branch=branch)
    if code in _NVLINK5:
        return _assess_nvlink5(entry, text, branch)
    by_text = _BY_TEXT.get(code)
    return _assessment(entry) if by_text is None else by_text(entry, text)


def _assessment(
    entry: Entry,
    *,
    action: Action | None = None,
    fatal: bool | None = None,
    why: str = "",
) -> Assessment:
    is_fatal = entry.fatal if fatal is None else fatal
    severity = entry.severity if fatal is None or is_fatal else "warning"
    return Assessment(
        entry=entry,
        action=entry.action if action is None else action,
        fatal=is_fatal,
        health=health_of(entry.origin, severity, fatal=is_fatal),
        why=why,
    )


def _assess_bad_task_group(entry: Entry, text: str) -> Assessment:
    """51: recent drivers reused the code, and only their meaning needs an action."""
    if not text or "BAD_TSG" in text:
        return _assessment(entry)
    return _assessment(
        entry, action=Action.NONE, fatal=False, why="an older driver's meaning of the code"
    )


_REMAP_PENDING = re.compile(
    r"already pending|pending (?:row remap|bank remap|LTS swap)", re.IGNORECASE
)
_NO_SPARES = re.compile(
    r"table is full|all reserved rows|no (?:more )?spare|HW limit|full inforom", re.IGNORECASE
)
_INTERNAL = re.compile(r"\binternal\b.*\berror\b", re.IGNORECASE)


def _assess_remap_failure(entry: Entry, text: str) -> Assessment:
    """64: a remap may be pending a reset, or impossible."""
    if _NO_SPARES.search(text):
        return _assessment(entry, action=Action.REPLACE, why="no spare rows are left")
    if _REMAP_PENDING.search(text):
        return _assessment(entry, action=Action.RESET_GPU, why="the remap waits for a reset")
    if _INTERNAL.search(text):
        return _assessment(
            entry, action=Action.RESET_GPU, why="an internal error: reset and check again"
        )
    return _assessment(entry)


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


def _assess_repair(entry: Entry, text: str) -> Assessment:
    """160: the text names what activates the repair, which can wait until the next drain."""
    lower = text.lower()
    if "node reboot" in lower:
        return _assessment(entry, action=Action.REBOOT_NODE, why="a reboot activates the repair")
    if "gpu reset" in lower:
        return _assessment(entry, action=Action.RESET_GPU, why="a reset activates the repair")
    return _assessment(entry)


def _assess_nvlink4(entry: Entry, text: str) -> Assessment:
    return _assessment(entry, why=explain_74(text))


_BY_TEXT = {
    51: _assess_bad_task_group,
    64: _assess_remap_failure,
    74: _assess_nvlink4,
    154: _assess_recovery,
    160: _assess_repair,
}
_NVLINK5 = frozenset(range(144, 151))


def is_decided_by_number(kind: Kind, code: int) -> bool:
    """Return whether the assessment depends on the code alone."""
    return kind is Kind.XID and code not in _BY_TEXT and code not in _NVLINK5


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


def is_application_fault(assessment: Assessment) -> bool:
    """Return whether an error is the application's fault, not the machine's."""
    return assessment.entry.origin is Origin.APP and not assessment.fatal
