"""navarch.v1.FleetService: every method of FleetApi under its own name."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, cast

import grpc

from navarch.api.grpc.guard import Context, guarded, guarded_stream
from navarch.api.limits import check_limits
from navarch.ports.api import FleetApi, Update
from navarch.wire.fleet import FLEET_CALLS, SERVICE, FleetCall


def fleet_handlers(fleet: FleetApi) -> grpc.GenericRpcHandler:
    """Return the handlers of the service."""
    handlers = {}
    for call in FLEET_CALLS.values():
        if call.streams:
            handlers[call.name] = guarded_stream(call.path, _watch(fleet, call))
        else:
            handlers[call.name] = guarded(call.path, _answer(fleet, call))
    return grpc.method_handlers_generic_handler(SERVICE, handlers)


def _answer(fleet: FleetApi, call: FleetCall) -> Callable[[bytes, Context], Awaitable[bytes]]:
    method = getattr(fleet, call.method)

    async def answer(body: bytes, _context: Context) -> bytes:
        arguments = call.read_request(body)
        check_limits(arguments)
        return call.write_reply(await method(**arguments))

    return answer


def _watch(fleet: FleetApi, call: FleetCall) -> Callable[[bytes], AsyncIterator[bytes]]:
    async def answer(body: bytes) -> AsyncIterator[bytes]:
        arguments = call.read_request(body)
        check_limits(arguments)
        updates = cast("Any", fleet.watch(**arguments))
        # Closed at once when the client leaves, so that the store stops sending updates.
        async with aclosing(updates):
            update: Update
            async for update in updates:
                yield call.write_reply(update)

    return answer
