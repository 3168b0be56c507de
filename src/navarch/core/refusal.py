"""Refusals: classes of a provider's reasons not to sell a machine."""

from enum import StrEnum

from navarch.core.errors import (
    CapacityError,
    CredentialError,
    ProviderError,
    QuotaError,
    RegionQuotaError,
    RejectedError,
)


class Refusal(StrEnum):
    """The class of a refusal. It decides which offerings are avoided, and for how long."""

    CAPACITY = "capacity"
    """That kind of machine is sold out at that place."""
    QUOTA = "quota"
    """The account may not have more of that kind in any region."""
    REGION_QUOTA = "region-quota"
    """The account may not have more of that kind in that region."""
    CREDENTIAL = "credential"
    """The provider rejects our credentials."""
    REJECTED = "rejected"
    """The provider considers the request invalid."""
    BLOCK = "block"
    """No block at that place has room for so many machines together."""
    TRANSIENT = "transient"
    """Other errors occurred several times in a row."""


_BY_ERROR: tuple[tuple[type[ProviderError], Refusal], ...] = (
    (CapacityError, Refusal.CAPACITY),
    (RegionQuotaError, Refusal.REGION_QUOTA),
    (QuotaError, Refusal.QUOTA),
    (CredentialError, Refusal.CREDENTIAL),
    (RejectedError, Refusal.REJECTED),
)


def refusal_of(error: ProviderError) -> Refusal:
    """Return the class of the refusal that `error` reports."""
    for kind, refusal in _BY_ERROR:
        if isinstance(error, kind):
            return refusal
    return Refusal.TRANSIENT
