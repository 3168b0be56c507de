"""Assertions, evaluated against the control plane's answers."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial

from navarch.core.duration import render_duration
from navarch.core.errors import NotFoundError
from navarch.core.event import Recorded
from navarch.core.ids import NodeId
from navarch.core.node import NodeStatus
from navarch.ports.api import PAGE_SIZE_MAX, FleetApi, NodeView, Query
from navarch.sim.runner.environment import Environment
from navarch.sim.runner.outcome import Verdict
from navarch.sim.scenario.assertion import Assertion, AssertionType, parse_comparison


async def judge(
    environment: Environment,
    assertion: Assertion,
    *,
    figures: Mapping[str, float | None],
    dropped: Sequence[Recorded] = (),
    began: datetime | None = None,
) -> Verdict:
    """Return whether an assertion holds now, and what was found.

    `dropped` is what the control plane's journal no longer has of a long run, which `began` at a
    time from which the times of assertions count.
    """
    kind = AssertionType(assertion.type)
    if kind is AssertionType.FIGURE:
        return _judge_figure(assertion, figures)
    if kind is AssertionType.NODE_COUNT:
        return await _judge_count(environment, assertion)
    if kind is AssertionType.EVENT:
        return await _judge_events(environment, assertion, dropped, began)
    return await _judge_node(environment, assertion, kind)


def _judge_figure(assertion: Assertion, figures: Mapping[str, float | None]) -> Verdict:
    """Return whether a figure is within its limits. A figure without measurements is not."""
    comparison = parse_comparison(assertion.expected)
    assert comparison is not None, assertion
    found = figures[assertion.target]
    return Verdict(
        what=f"{assertion.target} {assertion.expected}",
        holds=found is not None and comparison.holds(found),
        reason="there was nothing to measure" if found is None else f"it is {found:g}",
    )


async def look_at(environment: Environment, node: str) -> NodeView | None:
    """Return a node as the control plane has it."""
    try:
        detail = await environment.ask(lambda api: api.get_node(NodeId(node)))
    except NotFoundError:
        return None
    return detail.node


async def _judge_node(
    environment: Environment, assertion: Assertion, kind: AssertionType
) -> Verdict:
    what = f"{kind} of {assertion.target} is {assertion.expected}"
    view = await look_at(environment, assertion.target)
    if view is None:
        return Verdict(what=what, holds=False, reason=f"node not found: {assertion.target}")
    by_status = kind is AssertionType.NODE_STATUS
    found = str(view.status or view.phase) if by_status else str(view.health)
    causes = "; ".join(condition.reason or condition.check for condition in view.conditions)
    return Verdict(
        what=what,
        holds=found == assertion.expected,
        reason=f"it is {found}" + (f": {causes}" if causes else ""),
    )


async def _judge_count(environment: Environment, assertion: Assertion) -> Verdict:
    least = int(assertion.expected)
    active = await environment.ask(partial(_count_active, assertion.target))
    where = "" if assertion.target == "all" else f" of {assertion.target}"
    return Verdict(
        what=f"at least {least} nodes{where} are active",
        holds=active >= least,
        reason=f"{active} are",
    )


async def _judge_events(
    environment: Environment,
    assertion: Assertion,
    dropped: Sequence[Recorded],
    began: datetime | None,
) -> Verdict:
    comparison = parse_comparison(assertion.expected)
    assert comparison is not None, assertion
    kind, _, text = (part.strip() for part in assertion.target.partition(":"))
    count, after, page = 0, 0, dropped
    while True:
        count += sum(
            x.event.kind == kind
            and text in x.event.reason
            and (began is None or assertion.covers(x.event.at - began))
            for x in page
        )
        start = after = page[-1].number if page else after
        page = await environment.ask(lambda api: api.events(after=start, limit=PAGE_SIZE_MAX))  # noqa: B023
        if not page:
            break
    about = f' that say "{text}"' if text else ""
    if assertion.after is not None:
        about += f" after {render_duration(assertion.after)}"
    if assertion.before is not None:
        about += f" before {render_duration(assertion.before)}"
    return Verdict(
        what=f"{kind} events{about} {assertion.expected}",
        holds=comparison.holds(count),
        reason=f"there are {count}",
    )


async def _count_active(target: str, api: FleetApi) -> int:
    """Return how many nodes are active: all, or those of a pool, provider, region or zone."""
    found, token = 0, ""
    while True:
        page = await api.list_nodes(
            Query(status=NodeStatus.ACTIVE, page_size=PAGE_SIZE_MAX, page_token=token)
        )
        found += sum(
            target in ("all", view.pool, view.provider, view.region, view.zone)
            for view in page.items
        )
        token = page.next_page_token
        if not token:
            return found
