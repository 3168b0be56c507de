"""What the calls of all providers share that start many machines at once; pure."""

import hashlib
from collections.abc import Sequence

from navarch.core.ids import Token
from navarch.ports.provider import ProvisionRequest


def call_token(requests: Sequence[ProvisionRequest]) -> Token:
    """Return the token of the call for these machines in these zones."""
    tokens = " ".join((*(request.token for request in requests), *requests[0].zones))
    return Token(f"shared-{hashlib.sha256(tokens.encode()).hexdigest()[:40]}")


def common_labels(requests: Sequence[ProvisionRequest]) -> dict[str, str]:
    """Return the labels that all machines of a call have."""
    return {
        key: value
        for key, value in requests[0].labels.items()
        if all(request.labels.get(key) == value for request in requests)
    }
