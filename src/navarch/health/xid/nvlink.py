"""Decode the registers printed with NVLink errors: XIDs 144 to 150, and 74."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from navarch.health.xid.catalogue import Action, rows, strongest

NEW_LAYOUT_AT = 575
"""Since this branch the first register has its sub-code in bits 6:0, before in 9:5."""
FOLLOWS_154 = "follow_154_else_restart_app"

_LINE = re.compile(
    r"(?P<unit>[A-Z][A-Z0-9_]*(?: Degraded)?)\s+(?P<severity>Fatal|Nonfatal|Non-fatal)\b"
    r"(?:[^(\[]*?\bLink\s+(?P<link>-?\d+))?"
)
_REGISTERS = re.compile(r"[(\[]((?:0x[0-9a-fA-F]+[ ,]*)+)")
_LINK_OF_74 = re.compile(r"\blink (\d+)\s*\(")


Bits = tuple[int, int]
"""A mask of a register, and the value under it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NvlinkRule:
    """One rule: the registers it matches, and the action they need."""

    xid: int
    names: tuple[str, ...]
    masks: tuple[Bits, Bits]
    """The bits of the first register, in the old layout and in the new one."""
    statuses: tuple[int, ...]
    """Values of the second register; empty for any."""
    action: Action
    worse: tuple[Bits, Bits] | None
    """Other bits of the first register, which need `worse_action`."""
    worse_action: Action


@dataclass(frozen=True, slots=True, kw_only=True)
class NvlinkReading:
    """The decoded content of an NVLink error line."""

    unit: str
    fatal: bool
    link: int | None
    action: Action
    decoded: bool
    """Whether a rule matched the registers; else only the severity word was used."""


@cache
def nvlink_rules() -> Mapping[int, tuple[NvlinkRule, ...]]:
    """Return the rules by XID."""
    table: dict[int, list[NvlinkRule]] = {}
    for row in rows("nvlink5.csv"):
        follows_driver = row["action"] == FOLLOWS_154
        has_worse = bool(row["worse_action"])
        rule = NvlinkRule(
            xid=int(row["xid"]),
            names=tuple(row["unit"].split("/")),
            masks=(_bits(row, "old"), _bits(row, "new")),
            statuses=tuple(int(word, 16) for word in row["status"].split("/") if word),
            action=Action.RESTART_APP if follows_driver else Action(row["action"]),
            worse=(_bits(row, "worse_old"), _bits(row, "worse_new")) if has_worse else None,
            worse_action=Action(row["worse_action"] or Action.NONE),
        )
        table.setdefault(rule.xid, []).append(rule)
    return {xid: tuple(rules) for xid, rules in table.items()}


def _bits(row: Mapping[str, str], layout: str) -> Bits:
    return int(row[f"{layout}_mask"], 16), int(row[f"{layout}_value"], 16)


def read_nvlink5(code: int, text: str, *, branch: int | None = None) -> NvlinkReading | None:
    """Return the decoded text of an XID from 144 to 150, or None if it has no details."""
    line = _LINE.search(text)
    if line is None:
        return None
    registers = read_registers(text)[:2]
    rule, layout = _find_rule(code, line["unit"], registers, branch)
    if rule is None:
        action = Action.RESET_GPU if line["severity"] == "Fatal" else Action.RESTART_APP
    elif _is_worse(rule, layout, registers):
        action = strongest(rule.action, rule.worse_action)
    else:
        action = rule.action
    return NvlinkReading(
        unit=line["unit"],
        fatal=action is Action.RESET_GPU,
        link=None if line["link"] is None else int(line["link"]),
        action=action,
        decoded=rule is not None,
    )


def read_registers(text: str) -> tuple[int, ...]:
    """Return the hexadecimal numbers in brackets at the end of a line."""
    found = _REGISTERS.search(text)
    words = found[1].replace(",", " ").split() if found is not None else []
    return tuple(int(word, 16) for word in words)


def explain_74(text: str) -> str:
    """Return a short explanation of the seven registers of an XID 74."""
    link = _LINK_OF_74.search(text)
    where = f"link {link[1]}: " if link else ""
    hints: dict[str, None] = {}
    for number, value in enumerate(read_registers(text), start=1):
        bits = {bit for bit in range(32) if value >> bit & 1}
        for hint, meant in _HINTS.get(number, ()):
            if bits & meant:
                hints[hint] = None
    return where + "; ".join(hints) if hints else where.removesuffix(": ")


_HINTS: Mapping[int, Sequence[tuple[str, frozenset[int]]]] = {
    1: (
        ("may be ignored", frozenset({0, 23, 30})),
        ("follows a fault elsewhere", frozenset({1, 20})),
        ("memory of the link; replace if one link repeats it", frozenset({4, 5})),
        ("contact or link hardware", frozenset({8, 9, 12, 16, 17, 24, 28})),
        ("marginal signal", frozenset({21, 22})),
        ("counts only when repeated", frozenset({27, 29})),
    ),
    3: (
        ("memory of the link", frozenset({0, 1, 2, 6})),
        ("diagnose when repeated", frozenset({16, 19})),
    ),
    4: (("follows a fault elsewhere", frozenset({16, 17, 18})),),
    5: (
        ("memory of the link", frozenset({18, 19, 21, 22, 24, 25, 27, 28})),
        ("a threshold only", frozenset({20, 23, 26, 29})),
    ),
}
"""Keyed by register, counted from one as in NVIDIA's documentation."""


def _find_rule(
    code: int, unit: str, registers: Sequence[int], branch: int | None
) -> tuple[NvlinkRule | None, int]:
    """Return the rule for `registers`, and the layout they were read in.

    The driver's branch decides the layout. If it is unknown both are tried, and the one whose
    sub-code matches the printed name wins.
    """
    if not registers:
        return None, 0
    layouts = (0, 1) if branch is None else (int(branch >= NEW_LAYOUT_AT),)
    rules = nvlink_rules().get(code, ())
    found = [
        (rule, layout) for layout in layouts for rule in rules if _fits(rule, layout, registers)
    ]
    named = [(rule, layout) for rule, layout in found if unit in rule.names]
    if not named and branch is None and any(unit in rule.names for rule in rules):
        return None, 0  # The name is known but its registers are not: do not guess.
    weights = list(Action)
    return max(named or found, key=lambda pair: weights.index(pair[0].action), default=(None, 0))


def _fits(rule: NvlinkRule, layout: int, registers: Sequence[int]) -> bool:
    mask, value = rule.masks[layout]
    if registers[0] & mask != value and not _is_worse(rule, layout, registers):
        return False
    status = registers[1] if len(registers) > 1 else 0
    if not rule.statuses or status in rule.statuses:
        return True
    # Below 149 the second register is a bit set, so several may be raised.
    return rule.xid < 149 and any(status & bit for bit in rule.statuses)


def _is_worse(rule: NvlinkRule, layout: int, registers: Sequence[int]) -> bool:
    if rule.worse is None:
        return False
    mask, value = rule.worse[layout]
    return registers[0] & mask == value
