"""The guard in front of the services: every call is checked against the table of operations."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any, TypeVar, cast

from navarch.core.access import (
    OPERATIONS,
    Identity,
    Role,
    Scope,
    caller,
    caller_again,
    permitted,
    scope_of,
)
from navarch.core.boot_report import BootReport
from navarch.core.errors import NotFoundError, PermissionDeniedError, UnauthenticatedError
from navarch.core.health import HealthReport
from navarch.core.ids import CommandId, NodeId, PoolName
from navarch.core.incident import Evidence
from navarch.core.instance import NodeMetrics, Sample
from navarch.core.node import POOL_LABEL, NodeStatus
from navarch.core.recovery import Command
from navarch.ports.agents import AgentApi, BootDesk, Joins, Registration, Welcome
from navarch.ports.api import Update
from navarch.ports.evidence import EvidenceDesk

P = TypeVar("P")


def guarded(port: Any, serving: Callable[[Scope], P]) -> P:  # noqa: ANN401 - a Protocol
    """Return the service of a port that checks the caller of every call.

    A call goes to the service that `serving` returns for the pools for which the caller may
    perform it. Doors get only guarded services, so none can forget the check. Raises KeyError for
    a method that has no row in the table.
    """
    methods = {name: _checked(name, serving) for name in dir(port) if _is_operation(port, name)}
    return cast("P", type(f"Guarded{port.__name__}", (), methods)())


def _is_operation(port: Any, name: str) -> bool:  # noqa: ANN401
    return not name.startswith("_") and callable(getattr(port, name))


def _checked(operation: str, serving: Callable[[Scope], Any]) -> Callable[..., Any]:
    OPERATIONS[operation]  # A method without a row must not be served.
    if operation == "watch":
        return _watch(serving)

    def call(_self: object, *arguments: object, **named: object) -> Any:  # noqa: ANN401
        return getattr(serving(permitted(operation)), operation)(*arguments, **named)

    return call


def _watch(serving: Callable[[Scope], Any]) -> Callable[..., Any]:
    async def watch(_self: object, **named: object) -> AsyncIterator[Update]:
        scope = permitted("watch")
        async with aclosing(serving(scope).watch(**named)) as updates:
            async for update in updates:
                # The credentials may have been revoked, or their scope reduced.
                if scope_of(caller_again(), "watch") != scope:
                    raise UnauthenticatedError("the permissions have changed; watch again")
                yield update

    return watch


class GuardedAgents:
    """AgentApi for callers that may report only some nodes.

    A machine with a join token reports its own node. A token for agents reports machines that
    Navarch did not buy, in the pools of the token. An administrator reports any.
    """

    def __init__(
        self,
        agents: AgentApi,
        joins: Joins | None = None,
        *,
        pool_of: Callable[[NodeId], PoolName | None] | None = None,
    ) -> None:
        """`pool_of` returns the pool that a self-registered node serves.

        It raises NotPossibleError for a machine that was bought, which has a join token.
        """
        self._agents = agents
        self._joins = joins
        self._pool_of = pool_of

    async def register(self, registration: Registration, *, link: str = "") -> Welcome:
        """Register a machine; one with a join token as the node and launch that this proves."""
        who = self._check("register", registration.node)
        if who.joiner is not None and self._joins is not None:
            registration = await self._joins.admit(who.joiner, registration)
            welcome = await self._agents.register(registration, link=link)
            await self._joins.bind(who.joiner)
            return welcome
        if not who.has(Role.ADMIN):
            pool = PoolName(registration.inventory.labels.get(POOL_LABEL, "")) or None
            _check_pool(who, "register", registration.node, pool)
            if registration.token is not None:
                raise PermissionDeniedError(
                    f"{who.subject} registers only machines that Navarch did not buy; the machine "
                    "of a launch registers with its join token"
                )
        return await self._agents.register(registration, link=link)

    def heartbeat(self, node: NodeId, metrics: NodeMetrics | None = None) -> Sequence[Command]:
        """Record a heartbeat of `node`."""
        self._check("heartbeat", node)
        return self._agents.heartbeat(node, metrics)

    def pending(self, node: NodeId) -> Sequence[Command]:
        """Return the commands that `node` has not acknowledged yet."""
        self._check("pending", node)
        return self._agents.pending(node)

    def resolve(self, name: NodeId) -> NodeId:
        """Return the node of that name, or of the machine of that name at its provider.

        To a caller that may not report that node, its name is not revealed.
        """
        permitted("resolve")
        node = self._agents.resolve(name)
        try:
            if node != name:
                self._check("resolve", node)
        except PermissionDeniedError:
            return name
        return node

    async def report_health(self, node: NodeId, report: HealthReport) -> NodeStatus | None:
        """Report the results of checks."""
        self._check("report_health", node)
        return await self._agents.report_health(node, report)

    async def report_metrics(self, node: NodeId, samples: Sequence[Sample]) -> None:
        """Report late readings."""
        self._check("report_metrics", node)
        await self._agents.report_metrics(node, samples)

    async def acknowledge(self, node: NodeId, command: CommandId) -> None:
        """Acknowledge the receipt of a command."""
        self._check("acknowledge", node)
        await self._agents.acknowledge(node, command)

    async def finish(
        self, node: NodeId, command: CommandId, *, succeeded: bool, result: str = ""
    ) -> None:
        """Report the outcome of a command."""
        self._check("finish", node)
        await self._agents.finish(node, command, succeeded=succeeded, result=result)

    def check_evidence(self, node: NodeId) -> None:
        """Raise PermissionDeniedError if the caller may not report evidence of `node`."""
        self._check("report_evidence", node)

    def check_boot(self, node: NodeId) -> None:
        """Raise PermissionDeniedError if the caller may not report the boot of `node`."""
        self._check("report_boot", node)

    def _check(self, operation: str, node: NodeId) -> Identity:
        who = caller()
        permitted(operation)
        if who.joiner is not None:
            if who.joiner.node != node:
                raise PermissionDeniedError(f"this join token is not for node {node}")
        elif not who.has(Role.ADMIN):
            if self._pool_of is None:
                raise PermissionDeniedError(f"{who.subject} may not report node {node}")
            try:
                _check_pool(who, operation, node, self._pool_of(node))
            except NotFoundError:
                if operation != "register":
                    raise
        return who


def _check_pool(who: Identity, operation: str, node: NodeId, pool: PoolName | None) -> None:
    # By name: an agent could name any team.
    if not permitted(operation).covers_pool(pool):
        of = "no pool" if pool is None else f"pool {pool}"
        raise PermissionDeniedError(
            f"node {node} serves {of}, for which {who.subject} may not report"
        )


class GuardedEvidence:
    """EvidenceDesk for callers that may report only some nodes."""

    def __init__(self, evidence: EvidenceDesk, agents: GuardedAgents) -> None:
        self._evidence = evidence
        self._agents = agents

    async def report_evidence(self, evidence: Evidence) -> None:
        """Store a bundle."""
        self._agents.check_evidence(evidence.note.node)
        await self._evidence.report_evidence(evidence)


class GuardedBoots:
    """BootDesk for callers that may report only some nodes."""

    def __init__(self, boots: BootDesk, agents: GuardedAgents) -> None:
        self._boots = boots
        self._agents = agents

    async def report_boot(self, report: BootReport) -> None:
        """Record a step of a boot."""
        self._agents.check_boot(report.node)
        await self._boots.report_boot(report)
