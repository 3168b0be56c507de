"""The nine calls of the Go system, in terms of our own API."""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from navarch.api.connect import messages
from navarch.api.connect.events import judge_events
from navarch.api.connect.nodes import node_message
from navarch.api.limits import check_limits
from navarch.core.errors import InvalidError, NotFoundError, NotPossibleError
from navarch.core.health import HealthReport
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import InstanceState, NodeStatus
from navarch.core.recovery import Command, CommandKind
from navarch.ports.agents import AgentApi
from navarch.ports.api import PAGE_SIZE_MAX, DetailedFleet, NodeDetail, Query
from navarch.ports.clock import Clock, Entropy
from navarch.wire.reference import navarch_pb2 as pb

T = TypeVar("T")


class ReferenceMethods:
    """The reference's calls with our guarantees.

    Messages, codes and texts are the reference's. Its bugs are not: registering again changes no
    decision about a node, and a fetched command is acknowledged, not done.
    """

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        fleet: DetailedFleet,
        agents: AgentApi,
        *,
        link: str = "",
    ) -> None:
        """`link` names the listener, for the nodes that register at it."""
        self._link = link
        self._clock = clock
        self._entropy = entropy
        self._fleet = fleet
        self._agents = agents

    async def register_node(self, request: pb.RegisterNodeRequest) -> pb.RegisterNodeResponse:
        """Register a machine."""
        if not request.node_id:
            raise InvalidError("node_id is required")
        registration = messages.registration(request)
        check_limits(registration)
        return messages.welcome_message(await self._agents.register(registration, link=self._link))

    async def report_health(self, request: pb.ReportHealthRequest) -> pb.ReportHealthResponse:
        """Process check results and driver events."""
        # Events come last: they override the agent's own result of a check.
        results = (*messages.check_results(request.results), *judge_events(request.events))
        report = HealthReport(results=results)
        check_limits(report)
        status = await self._about(
            request.node_id, lambda node: self._agents.report_health(node, report)
        )
        return pb.ReportHealthResponse(acknowledged=True, node_status=messages.status_word(status))

    async def get_node_commands(
        self, request: pb.GetNodeCommandsRequest
    ) -> pb.GetNodeCommandsResponse:
        """Return the pending commands, and acknowledge them: the reference has no other way."""

        async def pending_of(node: NodeId) -> Sequence[Command]:
            return self._agents.pending(node)

        try:
            found = await self._about(request.node_id, pending_of)
        except NotFoundError:
            return pb.GetNodeCommandsResponse()
        pending = [
            command
            for command in found
            if f"NODE_COMMAND_TYPE_{command.kind.name}" in messages.COMMANDS
        ]
        for command in pending:
            await self._agents.acknowledge(command.node, command.id)
        return pb.GetNodeCommandsResponse(commands=map(messages.command_message, pending))

    async def list_nodes(self, request: pb.ListNodesRequest) -> AsyncIterator[Sequence[NodeDetail]]:
        """Yield the nodes that have registered, some at a time."""
        status = messages.named(NodeStatus, pb.NodeStatus, "NODE_STATUS_", request.status)
        if request.status and status is None:
            return
        query = Query(
            provider=request.provider or None,
            region=request.region or None,
            status=status,
            include_gone=request.status == pb.NodeStatus.NODE_STATUS_TERMINATED,
        )
        async for details in self._fleet.list_node_details(query):
            yield [detail for detail in details if detail.node.status is not None]

    async def get_node(self, request: pb.GetNodeRequest) -> pb.GetNodeResponse:
        """Return one node."""
        detail = await self._detail(request.node_id)
        return pb.GetNodeResponse(node=node_message(detail))

    async def issue_command(self, request: pb.IssueCommandRequest) -> pb.IssueCommandResponse:
        """Change a node, or issue a command to its agent."""
        if not request.node_id:
            raise InvalidError("node_id is required")
        if not request.command_type:
            raise InvalidError("command_type is required")
        kind = messages.named(
            CommandKind, pb.NodeCommandType, "NODE_COMMAND_TYPE_", request.command_type
        )
        if kind is None:
            raise InvalidError(f"unknown command_type: {request.command_type}")
        detail = await self._detail(request.node_id)
        parameters = dict(request.parameters)
        check_limits(parameters, "$.parameters")
        if kind in (CommandKind.CORDON, CommandKind.UNCORDON, CommandKind.DRAIN):
            await self._change(detail, kind, parameters.get("reason", ""))
            # Already done: there is no command to look up, but callers print its id.
            name = uuid.UUID(bytes=self._entropy.secret()[:16], version=4)
            return _issued(str(name), self._clock.now())
        if kind is CommandKind.TERMINATE and detail.node.instance is not None:
            reason = parameters.get("reason") or "terminated by hand"
            await self._fleet.retire(detail.node.id, reason=reason)
        command = await self._fleet.issue(detail.node.id, kind, parameters)
        return _issued(command.id, command.issued_at)

    async def list_instances(self, request: pb.ListInstancesRequest) -> pb.ListInstancesResponse:
        """List machines."""
        state = messages.named(InstanceState, pb.InstanceState, "INSTANCE_STATE_", request.state)
        if request.state and state is None:
            return pb.ListInstancesResponse()
        query = Query(
            provider=request.provider or None,
            region=request.region or None,
            state=state,
            pool=PoolName(request.pool_name) if request.pool_name else None,
            include_gone=True,
            page_size=PAGE_SIZE_MAX,
        )
        found: list[pb.InstanceInfo] = []
        while True:
            page = await self._fleet.list_instances(query)
            found += map(messages.instance_message, page.items)
            if not page.next_page_token:
                return pb.ListInstancesResponse(instances=found)
            query = replace(query, page_token=page.next_page_token)

    async def get_instance(self, request: pb.GetInstanceRequest) -> pb.GetInstanceResponse:
        """Return one machine."""
        if not request.instance_id:
            raise InvalidError("instance_id is required")
        try:
            instance = await self._fleet.get_instance(request.instance_id)
        except NotFoundError as error:
            raise NotFoundError(f"instance not found: {request.instance_id}") from error
        return pb.GetInstanceResponse(instance=messages.instance_message(instance))

    async def _change(self, detail: NodeDetail, kind: CommandKind, reason: str) -> None:
        node = detail.node
        if kind is CommandKind.CORDON:
            await self._fleet.cordon(node.id, reason=reason)
        elif kind is CommandKind.DRAIN:
            await self._fleet.drain(node.id, reason=reason)
        elif node.cordoned is None and node.status is not NodeStatus.DRAINING:
            word = messages.status_word(node.status)
            raise NotPossibleError(f"node {node.id} is not cordoned (current status: {word})")
        else:
            await self._fleet.uncordon(node.id)

    async def _detail(self, name: str) -> NodeDetail:
        if not name:
            raise InvalidError("node_id is required")
        # Not as `_about` does: these callers read the fleet, and report no node.
        try:
            detail = await self._fleet.get_node(NodeId(name))
        except NotFoundError:
            detail = await self._detail_of_machine(name)
        if detail.node.status is None:
            raise _unknown(name)
        return detail

    async def _detail_of_machine(self, name: str) -> NodeDetail:
        try:
            return await self._fleet.get_node((await self._fleet.get_instance(name)).node)
        except NotFoundError:
            raise _unknown(name) from None

    async def _about(self, name: str, call: Callable[[NodeId], Awaitable[T]]) -> T:
        """Make a call of an agent; those of the reference name a node by its instance id."""
        if not name:
            raise InvalidError("node_id is required")
        try:
            return await call(self._agents.resolve(NodeId(name)))
        except NotFoundError:
            raise _unknown(name) from None


def _unknown(name: str) -> NotFoundError:
    return NotFoundError(f"node not found: {name}")


def _issued(command: str, at: datetime) -> pb.IssueCommandResponse:
    message = pb.IssueCommandResponse(command_id=command)
    message.issued_at.FromDatetime(at)
    return message
