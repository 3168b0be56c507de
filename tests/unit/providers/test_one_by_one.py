"""Machines that cannot share a call are requested one by one."""

import asyncio
from collections.abc import Mapping

import pytest

from navarch.core.errors import (
    CapacityError,
    OutcomeUnknownError,
    ProviderError,
    QuotaError,
    TransientError,
)
from navarch.core.ids import InstanceId, ProviderName
from navarch.core.instance import Instance, InstanceStatus
from navarch.ports.provider import ProvisionRequest
from navarch.providers.one_by_one import one_by_one
from navarch.testing.provider_contract import ProviderContract

REQUESTS = [ProviderContract().numbered(number) for number in range(3)]


def buy(errors: Mapping[str, ProviderError]) -> tuple[list[str], list[str]]:
    """Return the kinds of the results, and the tokens that were requested."""
    requested: list[str] = []

    async def provision(request: ProvisionRequest) -> Instance | ProviderError:
        requested.append(request.token)
        if request.token in errors:
            raise errors[request.token]
        return Instance(
            id=InstanceId(request.token),
            provider=ProviderName("sim"),
            status=InstanceStatus.PENDING,
            instance_type=request.instance_type,
        )

    results = asyncio.run(one_by_one(REQUESTS, provision))
    return [type(result).__name__ for result in results], requested


def test_every_machine_is_requested_if_the_first_one_starts() -> None:
    kinds, requested = buy({"n-1": CapacityError("sold out")})
    assert kinds == ["Instance", "CapacityError", "Instance"]
    assert requested == ["n-0", "n-1", "n-2"]


@pytest.mark.parametrize("error", [CapacityError("no"), QuotaError("no"), TransientError("no")])
def test_nothing_more_is_requested_if_the_first_one_is_refused(error: ProviderError) -> None:
    kinds, requested = buy({"n-0": error})
    assert kinds == [type(error).__name__] * 3
    assert requested == ["n-0"]


def test_only_the_machine_that_was_requested_has_an_unknown_outcome() -> None:
    kinds, requested = buy({"n-0": OutcomeUnknownError("lost")})
    assert kinds == [OutcomeUnknownError.__name__, *[TransientError.__name__] * 2]
    assert requested == ["n-0"]
