"""Probes: connects to other nodes, because the control plane doubts that they work."""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from ipaddress import ip_address

import msgspec
import structlog

from navarch.agent.context import AgentContext
from navarch.core.errors import InvalidError, NavarchError
from navarch.core.ids import CommandId
from navarch.core.recovery import Command
from navarch.core.witness import Reach
from navarch.ports.host import Prober

log = structlog.get_logger(__name__)

ADDRESSES_MAX = 64
"""The most connections of one command."""

WITHIN_MAX_S = 30.0
REMEMBERED_MAX = 256


class ProbeLoop:
    """Carries out probes and reports their results.

    They are not stored: the control plane does without a result that is lost, and a machine with a
    broken disk can still probe others.
    """

    def __init__(self, context: AgentContext, prober: Prober) -> None:
        self._context = context
        self._prober = prober
        self._queue: deque[Command] = deque()
        self._received: dict[CommandId, None] = {}

    def receive(self, commands: Sequence[Command]) -> None:
        """Queue the commands that are new: each is delivered until its result is reported."""
        for command in commands:
            if command.id not in self._received:
                self._received[command.id] = None
                self._queue.append(command)
        while len(self._received) > REMEMBERED_MAX:
            del self._received[next(iter(self._received))]
        self._context.signals.probes.set()

    async def run(self) -> None:
        """Carry out probes as they arrive, until stopped."""
        signals = self._context.signals
        while not signals.stopping:
            while self._queue and not signals.stopping:
                await self._carry_out(self._queue.popleft())
            await signals.probes.sleep(None)

    async def _carry_out(self, command: Command) -> None:
        try:
            result, succeeded = await run_probe(command.parameters, self._prober), True
        except InvalidError as error:
            result, succeeded = str(error), False
        context = self._context
        node = context.connection.node
        try:
            await context.link.finish(node, command.id, succeeded=succeeded, result=result)
        except NavarchError as error:
            # It is delivered again with the next heartbeat, unless it has expired by then.
            self._received.pop(command.id, None)
            log.debug("agent.probe_not_reported", command=command.id, error=str(error))


async def run_probe(parameters: Mapping[str, str], prober: Prober) -> str:
    """Return the result of connecting to each address, as JSON; or raise InvalidError."""
    addresses = parameters.get("addresses", "").split()
    try:
        port, within_s = int(parameters.get("port", "")), float(parameters.get("within_s", ""))
        for address in addresses:
            ip_address(address)
    except ValueError as error:
        raise InvalidError(f"the probe is not valid: {error}") from error
    if not 0 < port < 65536 or not 0 < within_s <= WITHIN_MAX_S:
        raise InvalidError(f"the probe is out of bounds: port {port}, {within_s:g} s")
    if len(addresses) > ADDRESSES_MAX:
        raise InvalidError(f"the probe has {len(addresses)} addresses, above {ADDRESSES_MAX}")
    connections = (prober.connect(each, port, within_s=within_s) for each in addresses)
    found: list[Reach] = await asyncio.gather(*connections)
    return msgspec.json.encode(dict(zip(addresses, found, strict=True))).decode()
