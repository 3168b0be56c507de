"""Machines that are requested together and cannot share a call."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from navarch.core.errors import OutcomeUnknownError, ProviderError, TransientError
from navarch.core.instance import Instance
from navarch.ports.provider import ProvisionRequest

Provision = Callable[[ProvisionRequest], Awaitable[Instance | ProviderError]]


async def one_by_one(
    requests: Sequence[ProvisionRequest], provision: Provision
) -> list[Instance | ProviderError]:
    """Request each machine in a call of its own, unless the first one is refused.

    The others are then refused for the same reason: a probe of a sold-out offering takes one call,
    however many machines wait for it.
    """
    first = await _result(provision, requests[0])
    if isinstance(first, ProviderError):
        # Nothing was requested for the others, so their outcome is known.
        unknown = isinstance(first, OutcomeUnknownError)
        same = TransientError(str(first)) if unknown else first
        return [first, *([same] * (len(requests) - 1))]
    return [first, *await asyncio.gather(*(_result(provision, each) for each in requests[1:]))]


async def _result(provision: Provision, request: ProvisionRequest) -> Instance | ProviderError:
    try:
        return await provision(request)
    except ProviderError as error:
        return error
