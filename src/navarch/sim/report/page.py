"""The report of one run."""

import shlex

import msgspec
import yaml

from navarch.sim.figures.figures import flatten
from navarch.sim.figures.reactions import DurationStats
from navarch.sim.report.html import (
    BAD,
    CALM,
    FAINT,
    GOOD,
    WARN,
    Layer,
    Markup,
    badge,
    bars,
    document,
    element,
    join,
    render_number,
    render_span,
    search,
    section,
    stacked,
    table,
)
from navarch.sim.runner.outcome import Moment, NodeHistory, Outcome

TIMELINE_MAX = 2_000
"""Lines of the timeline in the page; the JSON has all of them."""
HISTORIES_MAX = 3_000


def render_html(outcome: Outcome) -> str:
    """Return the report of a run as one self-contained page."""
    return document(
        f"{outcome.scenario}: {'passed' if outcome.passed else 'failed'}",
        _top(outcome),
        section("verdicts", "Assertions and laws", _verdicts(outcome)),
        section("charts", "Charts", charts(outcome)),
        section("figures", "Figures", _figures(outcome)),
        section("broken", "Faults and detections", _broken(outcome)),
        _jobs(outcome),
        section("timeline", "Timeline", _timeline(outcome)),
        section("nodes", "Nodes", _nodes(outcome)),
        section("configuration", "Configuration", _configuration(outcome)),
    )


def _top(outcome: Outcome) -> Markup:
    how = "over the wire" if outcome.real_time else "in virtual time"
    facts = (
        f"{render_span(outcome.simulated_s)} {how}, {len(outcome.nodes)} nodes, "
        f"seed {outcome.seed}, Navarch {outcome.version}, trace {outcome.trace or 'none'}"
    )
    places = ("verdicts", "charts", "figures", "broken", "timeline", "nodes", "configuration")
    return join(
        element("h1", outcome.scenario, " ", badge(outcome.passed, "passed", "failed")),
        element("p", outcome.description) if outcome.description else "",
        element("p", facts, class_="faint"),
        element("nav", [element("a", name, href=f"#{name}") for name in places]),
    )


def _verdicts(outcome: Outcome) -> Markup:
    if not outcome.verdicts:
        return element("p", "Nothing was asserted.")
    ordered = sorted(outcome.verdicts, key=lambda verdict: verdict.holds)
    return table(
        ("", "what", "found"),
        [(badge(verdict.holds, "ok", "FAIL"), verdict.what, verdict.reason) for verdict in ordered],
    )


def charts(outcome: Outcome) -> Markup:
    """Return charts of the fleet over time, its reaction times, GPU-hours and costs."""
    figures = outcome.figures
    drawn: list[Markup] = []
    if outcome.timeline:
        drawn.append(_fleet_over_time(outcome.timeline))
    reactions = {
        "detected": _duration_bars(figures.detection),
        "out of service": _duration_bars(figures.cordon),
        "replaced": _duration_bars(figures.replacement),
    }
    if figures.detection.count or figures.cordon.count:
        drawn.append(bars(reactions, title="Time since the fault", render=render_span))
    hours, money = figures.gpu_hours, figures.money
    used = [
        ("wanted", FAINT, hours.wanted),
        ("delivered", GOOD, hours.delivered),
        ("lost", BAD, hours.lost),
        ("paid", CALM, hours.paid),
        ("wasted", WARN, hours.wasted),
    ]
    drawn.append(bars({"GPU-hours": used}, title="GPU-hours"))
    if money.billed or money.recorded:
        spent = [
            ("billed", CALM, float(money.billed)),
            ("recorded", FAINT, float(money.recorded)),
            ("wasted", WARN, float(money.wasted)),
        ]
        drawn.append(bars({"money": spent}, title="Money"))
    return join(*drawn)


def _duration_bars(stats: DurationStats) -> list[tuple[str, str, float | None]]:
    return [
        ("half within", GOOD, stats.p50_s),
        ("95 % within", WARN, stats.p95_s),
        ("all within", BAD, stats.max_s),
    ]


def _fleet_over_time(timeline: tuple[Moment, ...]) -> Markup:
    layers = [
        Layer(name="active", color=GOOD, values=[moment.active for moment in timeline]),
        Layer(name="cordoned", color=FAINT, values=[moment.cordoned for moment in timeline]),
        Layer(name="draining", color=WARN, values=[moment.draining for moment in timeline]),
        Layer(name="unhealthy", color=BAD, values=[moment.unhealthy for moment in timeline]),
        Layer(name="starting or terminating", color=CALM, values=[_others(m) for m in timeline]),
    ]
    times = [moment.at_s for moment in timeline]
    return stacked(times, layers, title="Nodes by state over time")


def _others(moment: Moment) -> int:
    counted = moment.active + moment.cordoned + moment.draining + moment.unhealthy
    return max(moment.total - counted, 0)


def _figures(outcome: Outcome) -> Markup:
    rows: list[tuple[object, ...]] = [
        (name, value) for name, value in flatten(outcome.figures).items() if shown(name, outcome)
    ]
    if outcome.heartbeats_sent:
        rows += [
            ("heartbeats sent", outcome.heartbeats_sent),
            ("heartbeats without an answer", outcome.heartbeats_lost),
            ("p95 answer time of heartbeats, in seconds", outcome.heartbeat_answers.p95_s),
            ("longest time between answers to one agent, in seconds", outcome.silence_max_s),
        ]
    if outcome.crashes:
        rows.append(("crashes of the control plane", outcome.crashes))
    return table(("figure", "value"), rows)


def shown(name: str, *outcomes: Outcome) -> bool:
    """Return whether a figure has a value in any of the outcomes."""
    if name.startswith("goodput."):
        return any(outcome.jobs for outcome in outcomes)
    return any(flatten(outcome.figures)[name] is not None for outcome in outcomes)


def _broken(outcome: Outcome) -> Markup:
    if not outcome.failures and not outcome.rules:
        return element(
            "p", "No fault was injected, and no check found a node degraded or unhealthy."
        )
    kinds: list[tuple[object, ...]] = [("type", *pair) for pair in outcome.failures.items()]
    kinds += [("XID", *pair) for pair in outcome.xids.items()]
    kinds += [("cause", *pair) for pair in outcome.causes.items()]
    if outcome.skipped:
        kinds.append(("not injected", "no sound machine was left", outcome.skipped))
    rules: list[tuple[object, ...]] = [(x.rule, x.result, x.hits) for x in outcome.rules]
    return element(
        "div",
        element("div", element("h3", "Faults"), table(("", "", "count"), kinds)),
        element(
            "div",
            element("h3", "Rules that fired"),
            table(("rule", "result", "times"), rules)
            if rules
            else element("p", "No check found a node degraded or unhealthy."),
        ),
        class_="two",
    )


def _jobs(outcome: Outcome) -> Markup:
    if not outcome.jobs:
        return Markup("")
    rows: list[tuple[object, ...]] = [
        (
            job.name,
            job.queue,
            job.gpus,
            "finished" if job.finished else "not finished",
            render_span(job.kept_s),
            render_span(job.lost_s),
            render_span(job.slowed_s),
            render_span(job.waited_s),
            job.starts,
            job.interruptions,
        )
        for job in outcome.jobs[:HISTORIES_MAX]
    ]
    head = (
        *("job", "queue", "GPUs", "", "kept", "lost", "slowed", "waited"),
        *("starts", "interruptions"),
    )
    return section(
        "jobs",
        "Jobs",
        element("div", table(head, rows), class_="wide"),
        _left_out(len(outcome.jobs), HISTORIES_MAX),
    )


def _timeline(outcome: Outcome) -> Markup:
    lines = sorted((x.at_s, x.kind, x.target, x.text) for x in outcome.happenings)
    if not lines:
        return element("p", "The scenario has no events.")
    rows = element(
        "tbody",
        [
            element(
                "tr",
                element("td", render_span(at_s), class_="number", title=f"{at_s:.3f} s"),
                [element("td", part) for part in rest],
                data_text=" ".join(rest),
            )
            for at_s, *rest in lines[:TIMELINE_MAX]
        ],
        id="timeline-lines",
    )
    head = element("thead", element("tr", [element("th", x) for x in ("at", "what", "", "")]))
    return join(
        search("timeline-lines", "Show lines that contain ..."),
        element("div", element("table", head, rows), class_="wide"),
        _left_out(len(lines), TIMELINE_MAX),
    )


def _nodes(outcome: Outcome) -> Markup:
    ordered = sorted(
        outcome.nodes, key=lambda x: (-x.failures, x.status == "active", *_by_number(x.node))
    )
    return join(
        search("node-histories", "Show nodes with a name, place or state that contains ..."),
        element("div", [_history(x) for x in ordered[:HISTORIES_MAX]], id="node-histories"),
        _left_out(len(ordered), HISTORIES_MAX),
    )


def _by_number(name: str) -> tuple[str, int, str]:
    """Return a sort key that puts training-2 before training-10."""
    stem, _, number = name.rpartition("-")
    return (stem, int(number), name) if number.isdigit() else (name, -1, name)


def _history(history: NodeHistory) -> Markup:
    place = " ".join(x for x in (history.pool, history.provider, history.zone) if x)
    what = f"{history.gpus} x {history.gpu_type or 'GPU'}"
    often = "once" if history.failures == 1 else f"{history.failures} times"
    broken = f", faulted {often}" if history.failures else ""
    state = f"{history.status}, {history.health}{broken}"
    rows: list[tuple[object, ...]] = []
    for entry in history.entries:
        at = element("span", render_span(entry.at_s), title=f"{entry.at_s:.3f} s")
        rows.append((at, entry.kind, entry.status, entry.text))
    labels = ", ".join(f"{key}={value}" for key, value in history.labels.items())
    return element(
        "details",
        element(
            "summary",
            element("strong", history.node),
            f" {state} ",
            element("span", f"{place} {history.instance_type} {what} {labels}", class_="faint"),
        ),
        table(("at", "what", "status", "why"), rows),
        data_text=f"{history.node} {place} {state} {labels}",
    )


def _left_out(count: int, limit: int) -> Markup:
    if count <= limit:
        return Markup("")
    return element(
        "p",
        f"{render_number(count - limit)} more are not shown; the JSON (--out) has all.",
        class_="faint",
    )


def _configuration(outcome: Outcome) -> Markup:
    held = yaml.safe_dump(
        msgspec.to_builtins(outcome.configuration), sort_keys=False, allow_unicode=True
    )
    if outcome.real_time:
        again = "A run in real time cannot be repeated exactly. Its configuration:"
        command = Markup("")
    else:
        given = "With its file" if outcome.source else "Save this as a file;"
        again = (
            f"{given} the command below repeats the run event by event "
            f"with Navarch {outcome.version}:"
        )
        command = element("pre", element("code", command_of(outcome)))
    return join(element("p", again), command, element("pre", element("code", held)))


def command_of(outcome: Outcome) -> str:
    """Return the command that repeats a run from its file, or from its configuration."""
    path = outcome.source or f"{outcome.scenario}.yaml"
    return f"navarch sim run {shlex.quote(path)} --seed {outcome.seed}"
