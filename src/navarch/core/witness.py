"""Testimonies: what others than its agent report about a silent node."""

from datetime import datetime

import msgspec


class Testimony(msgspec.Struct, frozen=True, kw_only=True):
    """What one witness reports about the machine of a silent node."""

    witness: str
    """The name of the witness, such as `provider`."""
    alive: bool | None
    """False: it proves that the machine is dead. True: it proves that the machine works although
    its agent is silent. None: it cannot tell."""
    reason: str
    """A sentence for operators."""
    since: datetime
    """When this testimony began; a testimony that is repeated keeps it."""
