"""Decode the registers printed with NVLink errors: XIDs 144 to 150, and 74."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from navarch.health.xid.action import Action, strongest
from navarch.health.xid.catalogue import rows

NEW_LAYOUT_AT = 575
"""Since this branch the first register has its sub-code in bits 6:0, before in 9:5."""
FOLLOWS_154 = "follow_154_else_restart_app"

_LINE = re.compile(
    r"(?P<unit>[A-Z][A-Z0-9_]*(?: Degraded)?)\s+(?P<severity>Fatal|Nonfatal|Non-fatal)\b"
    r"(?:[^(\[]*?\bLink\s+(?P<link>-?\d+))?"
)
_REGISTERS = re.compile(r"[(\[]((?:0x[0-9a-fA-F]+[ ,]*)+)")
_LINK_OF_74 = re.compile(r"\blink (\d+)\s*\(")


@dataclass(frozen=True, slots=True, kw_only=True)
class NvlinkRule:
    """One rule: the registers it matches, and the action they need."""

    xid: int
    names: tuple[str, ...]
    masks: tuple[tuple[int, int], tuple[int, int]]
    """Mask and value of the first register, in the old layout and in the new one."""
    statuses: tuple[int, ...]
    """Values of the second register; empty for any."""
    action: Action
    follows_recovery: bool
    worse: tuple[tuple[int, int], tuple[int, int]] | None
    worse_action: Action
    severity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NvlinkReading:
    """The decoded content of an NVLink error line."""

    unit: str
    fatal: bool
    link: int | None
    action: Action
    decoded: bool
    """Whether a rule matched the registers; else only the severity word was used."""
    down_reason: int | None = None
    """The driver's code for why the link went down (XID 149)."""


@cache
def nvlink_rules() -> Mapping[int, tuple[NvlinkRule, ...]]:
    """Return the rules by XID."""
    table: dict[int, list[NvlinkRule]] = {}
    for row in rows("nvlink5.csv"):
        table.setdefault(int(row["xid"]), []).append(_rule(row))
    return {xid: tuple(rules) for xid, rules in table.items()}


def read_nvlink5(code: int, text: str, *, branch: int | None = None) -> NvlinkReading | None:
    """Return the decoded text of an XID from 144 to 150, or None if it has no details."""
    line = _LINE.search(text)
    if line is None:
        return None
    fatal = line["severity"] == "Fatal"
    registers = read_registers(text)
    action, decoded = _decide(code, line["unit"], fatal, registers[:2], branch)
    return NvlinkReading(
        unit=line["unit"],
        fatal=action is Action.RESET_GPU,
        link=None if line["link"] is None else int(line["link"]),
        action=action,
        decoded=decoded,
        down_reason=registers[0] >> 20 & 0x3F if code == 149 and registers else None,
    )


@lru_cache(maxsize=4096)
def _decide(
    code: int, unit: str, fatal: bool, registers: tuple[int, ...], branch: int | None
) -> tuple[Action, bool]:
    """Return the action, and whether a rule matched. Cached: a failing link repeats its line."""
    rule, layout = _fitting(code, unit, registers, branch)
    if rule is None:
        return _without_rule(fatal), False
    return _action(rule, layout, registers), True


def read_registers(text: str) -> tuple[int, ...]:
    """Return the hexadecimal numbers in brackets at the end of a line."""
    found = _REGISTERS.search(text)
    return () if found is None else tuple(int(word, 16) for word in _words(found[1]))


def explain_74(text: str) -> str:
    """Return a short explanation of the seven registers of an XID 74."""
    registers = read_registers(text)
    link = _LINK_OF_74.search(text)
    where = f"link {link[1]}: " if link else ""
    hints = list(dict.fromkeys(_hints(registers)))
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


def _hints(registers: Sequence[int]) -> Iterator[str]:
    for number, value in enumerate(registers, start=1):
        bits = {bit for bit in range(32) if value >> bit & 1}
        yield from (hint for hint, set_bits in _HINTS.get(number, ()) if bits & set_bits)


def _fitting(
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
        (unit in rule.names, layout, rule)
        for layout in layouts
        for rule in rules
        if _fits(rule, layout, registers)
    ]
    named = [(rule, layout) for same_name, layout, rule in found if same_name]
    if named:
        return max(named, key=lambda pair: _weight(pair[0]))
    if branch is None and any(unit in rule.names for rule in rules):
        return None, 0  # The name is known but its registers are not: do not guess.
    others = [(rule, layout) for _, layout, rule in found]
    return max(others, key=lambda pair: _weight(pair[0]), default=(None, 0))


def _fits(rule: NvlinkRule, layout: int, registers: Sequence[int]) -> bool:
    mask, value = rule.masks[layout]
    worse = rule.worse and rule.worse[layout]
    if registers[0] & mask != value and not (worse and registers[0] & worse[0] == worse[1]):
        return False
    if not rule.statuses:
        return True
    status = registers[1] if len(registers) > 1 else 0
    if status in rule.statuses:
        return True
    # Below 149 the second register is a bit set, so several may be raised.
    return rule.xid < 149 and any(status & bit for bit in rule.statuses)


def _weight(rule: NvlinkRule) -> int:
    return list(Action).index(rule.action)


def _action(rule: NvlinkRule, layout: int, registers: Sequence[int]) -> Action:
    if rule.worse is not None:
        mask, value = rule.worse[layout]
        if registers[0] & mask == value:
            return strongest(rule.action, rule.worse_action)
    return rule.action


def _without_rule(fatal: bool) -> Action:
    return Action.RESET_GPU if fatal else Action.RESTART_APP


def _rule(row: Mapping[str, str]) -> NvlinkRule:
    follows = row["action"] == FOLLOWS_154
    has_worse = bool(row["worse_action"])
    return NvlinkRule(
        xid=int(row["xid"]),
        names=tuple(row["unit"].split("/")),
        masks=(_pair(row, "old"), _pair(row, "new")),
        statuses=tuple(int(word, 16) for word in row["status"].split("/") if word),
        action=Action.RESTART_APP if follows else Action(row["action"]),
        follows_recovery=follows,
        worse=(_pair(row, "worse_old"), _pair(row, "worse_new")) if has_worse else None,
        worse_action=Action(row["worse_action"] or Action.NONE),
        severity=row["severity"],
    )


def _pair(row: Mapping[str, str], layout: str) -> tuple[int, int]:
    return int(row[f"{layout}_mask"], 16), int(row[f"{layout}_value"], 16)


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split()
