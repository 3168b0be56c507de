"""Stockouts restored from the journal."""

import pytest

from navarch.core.errors import CapacityError, CredentialError, QuotaError, TransientError
from navarch.core.launch import refusal_of
from navarch.core.node import Phase
from navarch.core.records import evolve
from navarch.fleet.launching import refused
from navarch.fleet.stockouts import closed_by, stockouts_from_journal
from navarch.testing.worlds import NOW, a_node


@pytest.mark.parametrize("error", [CapacityError, QuotaError, CredentialError, TransientError])
@pytest.mark.parametrize("spot", [False, True])
def test_a_stockout_is_restored_from_the_event_of_its_refusal(
    error: type[CapacityError], spot: bool
) -> None:
    node = a_node("training-0", phase=Phase.REQUESTED)
    assert node.launch is not None
    offering = evolve(node.launch.offering, spot=spot)
    node = evolve(node, launch=evolve(node.launch, offering=offering))
    assert node.launch is not None

    change = refused(node, node.launch.token, error("no"), now=NOW)

    assert change is not None
    (launch,) = change.launches
    assert launch.refusal is refusal_of(error("no"))
    assert list(stockouts_from_journal(change.events).closures) == [
        closed_by(offering, launch.refusal)
    ]
