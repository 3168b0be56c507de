"""`navarch diag`: have a node's agent look, or test its GPUs, and wait for what it finds."""

import asyncio
import re
from datetime import timedelta

import click

from navarch.cli.commands import Command
from navarch.cli.completion import complete_node
from navarch.cli.errors import FAILED, UNREACHABLE, CommandError
from navarch.cli.render.scan import render_results
from navarch.cli.session import WAIT_TIMEOUT, Session, with_session
from navarch.core.command import Command as Order
from navarch.core.command import CommandKind, CommandStatus
from navarch.core.health import CheckResult, Health
from navarch.core.ids import NodeId
from navarch.ports.api import FleetApi

TESTS = ("burn", "patterns", "bandwidth", "dcgm", "nccl", "all")
ASK_EVERY_S = 1.0
_LINE = re.compile(r"^(?P<check>\S+) (?P<health>healthy|degraded|unhealthy|unknown): (?P<why>.*)$")


@click.command("diag", cls=Command)
@click.argument("node", shell_complete=complete_node)
@click.option(
    "--test",
    "tests",
    type=click.Choice(TESTS),
    metavar="NAME",
    multiple=True,
    help=f"Test the GPUs, which nobody may use meanwhile: {', '.join(TESTS)}. Repeatable.",
)
@click.option(
    "--with",
    "peers",
    metavar="NODE",
    multiple=True,
    shell_complete=complete_node,
    help="Let the test nccl span this node too, which must be cordoned and idle. Repeatable.",
)
@with_session
def diag(session: Session, node: str, tests: tuple[str, ...], peers: tuple[str, ...]) -> int:
    """Have a node look at itself now, and say what it finds.

    Without --test every check is made that disturbs nobody. Leaves with 1 if the node fails.
    """
    if peers and not {"nccl", "all"} & set(tests):
        raise click.UsageError("--with is for --test nccl, the only test that spans nodes")
    within = session.timeout_or(WAIT_TIMEOUT)
    order = session.call_without_timeout(
        lambda api: _diagnose(session, api, NodeId(node), tests, peers, within)
    )
    if order.status is not CommandStatus.COMPLETED:
        raise CommandError(f"the diagnosis {order.status}: {order.result or 'nobody says why'}")
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
                await session.clock.sleep(ASK_EVERY_S)
                order = await api.get_command(order.id)
    except TimeoutError as error:
        raise CommandError(
            f"node {node} has not finished; `navarch get {node}` will show {order.id}", UNREACHABLE
        ) from error
    return order


async def _peer(api: FleetApi, node: NodeId) -> str:
    """Return where a node is and how many GPUs it has, once nobody else can be using them."""
    detail = await api.get_node(node)
    inventory = detail.inventory
    if detail.node.cordoned is None:
        raise CommandError(f"node {node} may be given work; `navarch cordon {node}` keeps it away")
    if any(gpu.utilization_pct for gpu in (detail.metrics.gpus if detail.metrics else ())):
        raise CommandError(f"node {node} is busy; wait until its work has ended, or drain it")
    if inventory is None or not inventory.gpus or not inventory.internal_ip:
        raise CommandError(f"node {node} has not said where it is and which GPUs it has")
    return f"{inventory.internal_ip}:{len(inventory.gpus)}"


def parse_results(text: str) -> list[CheckResult]:
    """Return what an agent found, from the lines in which it tells it."""
    found = (_LINE.match(line) for line in text.splitlines())
    return [
        CheckResult(check=line["check"], health=Health(line["health"]), reason=line["why"])
        for line in found
        if line is not None
    ]
