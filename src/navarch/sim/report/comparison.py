"""The report of two runs side by side, for example of two policies or two versions."""

from difflib import unified_diff

import msgspec
import yaml

from navarch.sim.figures.figures import flatten
from navarch.sim.report.html import (
    CALM,
    WARN,
    Markup,
    badge,
    bars,
    document,
    element,
    join,
    render_number,
    render_span,
    section,
    table,
)
from navarch.sim.report.page import charts, command_of, shown
from navarch.sim.runner.outcome import Outcome

LOWER_IS_BETTER = (
    "detection.",
    "cordon.",
    "replacement.",
    "undetected",
    "false_cordons",
    "sound_destroyed",
    "leaks",
    "gpu_hours.lost",
    "gpu_hours.wasted",
    "goodput.lost",
    "goodput.slowed",
    "goodput.waited",
    "goodput.overhead",
    "goodput.interruptions",
    "goodput.interruptions_per_fault",
    "goodput.unprovoked_interruptions",
    "money.",
)
HIGHER_IS_BETTER = (
    "availability",
    "gpu_hours.delivered",
    "goodput.kept",
    "goodput.ettr",
    "goodput.finished",
)


def render_comparison_html(one: Outcome, other: Outcome) -> str:
    """Return the comparison of two runs as one self-contained page."""
    names = _names(one, other)
    return document(
        f"{names[0]} against {names[1]}",
        element("h1", f"{names[0]} against {names[1]}"),
        element(
            "div", [_top(x, n) for x, n in zip((one, other), names, strict=True)], class_="two"
        ),
        section("figures", "Figures", _figures(one, other, names)),
        section("verdicts", "Assertions and laws", _verdicts(one, other, names)),
        section("reactions", "Reactions", _reactions(one, other, names)),
        section(
            "charts",
            "Charts",
            # One below the other, because their labels would be too small side by side.
            [
                element("div", element("h3", n), charts(x))
                for x, n in zip((one, other), names, strict=True)
            ],
        ),
        section("rules", "Rules that fired", _rules(one, other, names)),
        section("configuration", "Difference of configuration", _difference(one, other, names)),
    )


def better(name: str, before: float | None, after: float | None) -> bool | None:
    """Return whether a figure became better, or None if it is not comparable."""
    if before is None or after is None or before == after or name.endswith(".count"):
        return None
    if name.startswith(HIGHER_IS_BETTER):
        return after > before
    if name.startswith(LOWER_IS_BETTER):
        return after < before
    return None


def _names(one: Outcome, other: Outcome) -> tuple[str, str]:
    if one.scenario != other.scenario:
        return one.scenario, other.scenario
    if one.version != other.version:
        return f"{one.scenario} by {one.version}", f"{other.scenario} by {other.version}"
    if one.seed != other.seed:
        return f"{one.scenario} seed {one.seed}", f"{other.scenario} seed {other.seed}"
    return f"{one.scenario} (first)", f"{other.scenario} (second)"


def _top(outcome: Outcome, name: str) -> Markup:
    how = "over the wire" if outcome.real_time else "in virtual time"
    return element(
        "div",
        element("h3", name, " ", badge(outcome.passed, "passed", "failed")),
        element("p", outcome.description),
        element(
            "p",
            f"{render_span(outcome.simulated_s)} {how}, seed {outcome.seed}, Navarch "
            f"{outcome.version}, trace {outcome.trace or 'none'}",
            class_="faint",
        ),
        element("pre", element("code", command_of(outcome))) if not outcome.real_time else "",
    )


def _figures(one: Outcome, other: Outcome, names: tuple[str, str]) -> Markup:
    left, right = flatten(one.figures), flatten(other.figures)
    rows: list[tuple[object, ...]] = [
        (name, left[name], right[name], _change(name, left[name], right[name]))
        for name in left
        if shown(name, one, other)
    ]
    return table(("figure", *names, "change"), rows)


def _change(name: str, before: float | None, after: float | None) -> Markup | str:
    if before == after:
        return "same"
    if before is None or after is None:
        return "-"
    percent = f"{100 * (after - before) / before:+.1f}" if before else ""
    share = f" ({percent} %)" if percent.strip("+-0.") else ""
    sign = "+" if after > before else "-"
    text = f"{sign}{render_number(abs(after - before))}{share}"
    verdict = better(name, before, after)
    if verdict is None:
        return text
    return join(text, " ", badge(verdict, "better", "worse"))


def _verdicts(one: Outcome, other: Outcome, names: tuple[str, str]) -> Markup:
    left = {verdict.what: verdict for verdict in one.verdicts}
    right = {verdict.what: verdict for verdict in other.verdicts}
    whats = list(dict.fromkeys([*left, *right]))
    if not whats:
        return element("p", "Nothing was asserted.")
    rows: list[tuple[object, ...]] = [
        (
            what,
            *(
                join(badge(side[what].holds, "ok", "FAIL"), " ", side[what].reason)
                if what in side
                else "not asserted"
                for side in (left, right)
            ),
        )
        for what in whats
    ]
    return table(("what", *names), rows)


def _reactions(one: Outcome, other: Outcome, names: tuple[str, str]) -> Markup:
    left, right = flatten(one.figures), flatten(other.figures)
    picked = {"detected": "detection", "out of service": "cordon", "replaced": "replacement"}
    groups = {}
    for title, pick in picked.items():
        for part, word in (("p50_s", "half"), ("p95_s", "95 %")):
            name = f"{pick}.{part}"
            both = [("first", CALM, left[name]), ("second", WARN, right[name])]
            groups[f"{title}, {word}"] = both
    if not any(x.figures.detection.count or x.figures.cordon.count for x in (one, other)):
        return element("p", "No fault was injected in either run.")
    title = f"Time since the fault: first is {names[0]}, second is {names[1]}"
    return bars(groups, title=title, render=render_span)


def _rules(one: Outcome, other: Outcome, names: tuple[str, str]) -> Markup:
    left = {(x.rule, x.result): x.hits for x in one.rules}
    right = {(x.rule, x.result): x.hits for x in other.rules}
    rows: list[tuple[object, ...]] = [
        (*key, left.get(key, 0), right.get(key, 0)) for key in sorted({*left, *right})
    ]
    if not rows:
        return element("p", "No check found a node degraded or unhealthy in either run.")
    return table(("rule", "result", *names), rows)


def _difference(one: Outcome, other: Outcome, names: tuple[str, str]) -> Markup:
    lines = list(
        unified_diff(_yaml(one), _yaml(other), fromfile=names[0], tofile=names[1], lineterm="")
    )
    if not lines:
        return element("p", "Both runs have the same configuration.")
    return element("pre", element("code", "\n".join(lines)))


def _yaml(outcome: Outcome) -> list[str]:
    held = msgspec.to_builtins(outcome.configuration)
    return yaml.safe_dump(held, sort_keys=False, allow_unicode=True).splitlines()
