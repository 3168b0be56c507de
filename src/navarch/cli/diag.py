"""`navarch diag`: run checks or GPU tests on a node, and wait for the results."""

import asyncio
import re
from datetime import timedelta

import click

from navarch.cli.commands import Command
from navarch.cli.completion import complete_node
from navarch.cli.errors import FAILED, UNREACHABLE, CommandError
from navarch.cli.render.nodes import render_results
from navarch.cli.session import WAIT_TIMEOUT, Session, with_session
from navarch.core.health import CheckResult, Health
from navarch.core.ids import NodeId
from navarch.core.recovery import Command as Order
from navarch.core.recovery import CommandKind, CommandStatus
from navarch.ports.api import FleetApi

TESTS = ("burn", "patterns", "bandwidth", "dcgm", "nccl", "all")
POLL_S = 1.0
_LINE = re.compile(r"^(?P<check>\S+) (?P<health>healthy|degraded|unhealthy|unknown): (?P<why>.*)$")


@click.command("diag", cls=Command)
@click.argument("node", shell_complete=complete_node)
@click.option(
    "--test",
    "tests",
    type=click.Choice(TESTS),
    metavar="NAME",
    multiple=True,
    help=f"Test the GPUs, which must be idle: {', '.join(TESTS)}. Repeatable.",
)
@click.option(
    "--with",
    "peers",
    metavar="NODE",
    multiple=True,
    shell_complete=complete_node,
    help="With --test nccl: include this node, which must be cordoned and idle. Repeatable.",
)
@with_session
def diag(session: Session, node: str, tests: tuple[str, ...], peers: tuple[str, ...]) -> int:
    """Run checks on a node now and show the results.

    Without --test, only checks that do not disturb work run. The exit code is 1 if the node fails.
    """
    if peers and not {"nccl", "all"} & set(tests):
        raise click.UsageError("--with needs --test nccl, the only test that spans nodes")
    within = session.timeout_or(WAIT_TIMEOUT)
    order = session.call_without_timeout(
        lambda api: _diagnose(session, api, NodeId(node), tests, peers, within)
    )
    if order.status is not CommandStatus.COMPLETED:
        raise CommandError(f"the diagnosis {order.status}: {order.result or 'no reason given'}")
    results = parse_results(order.result)
    session.show(
        {"command": order, "results": results},
        lambda canvas: render_results(results, canvas) if results else order.result,
    )
    return FAILED if any(result.health is Health.UNHEALTHY for result in results) else 0


async def _diagnose(
    session: Session,
    api: FleetApi,
    node: NodeId,
    tests: tuple[str, ...],
    peers: tuple[str, ...],
    within: timedelta,
) -> Order:
    parameters = {"tests": ",".join(tests)} if tests else {}
    if peers:
        found = [await _peer(api, NodeId(peer)) for peer in peers if peer != node]
        parameters["peers"] = ",".join(found)
    order = await api.issue(node, CommandKind.RUN_DIAGNOSTIC, parameters)
    try:
        async with asyncio.timeout(within.total_seconds()):
            while not order.over:
                await session.clock.sleep(POLL_S)
                order = await api.get_command(order.id)
    except TimeoutError as error:
        raise CommandError(
            f"node {node} has not finished; see {order.id} with: navarch get {node}", UNREACHABLE
        ) from error
    return order


async def _peer(api: FleetApi, node: NodeId) -> str:
    """Return `address:gpus` of a node, or raise if its GPUs may be in use."""
    detail = await api.get_node(node)
    inventory = detail.inventory
    if detail.node.cordoned is None:
        raise CommandError(f"node {node} is not cordoned; run: navarch cordon {node}")
    if any(gpu.utilization_pct for gpu in (detail.metrics.gpus if detail.metrics else ())):
        raise CommandError(
            f"node {node} is busy; wait for its work to end, or run: navarch drain {node}"
        )
    if inventory is None or not inventory.gpus or not inventory.internal_ip:
        raise CommandError(f"node {node} has not reported its address and GPUs yet")
    return f"{inventory.internal_ip}:{len(inventory.gpus)}"


def parse_results(text: str) -> list[CheckResult]:
    """Return the results in an agent's text, ignoring other lines."""
    found = (_LINE.match(line) for line in text.splitlines())
    return [
        CheckResult(check=line["check"], health=Health(line["health"]), reason=line["why"])
        for line in found
        if line is not None
    ]
