"""Testimonies: what others than its agent report about a silent node."""

from datetime import datetime, timedelta
from enum import StrEnum

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


class Reach(StrEnum):
    """The result of a TCP connection to another machine."""

    GREETED = "greeted"
    """A program of it sent something, as SSH servers do at once."""
    CONNECTED = "connected"
    """Its kernel, or a firewall before it, accepted the connection; no program sent anything."""
    REFUSED = "refused"
    """Its kernel, or a firewall before it, rejected the connection."""
    NO_RESPONSE = "no_response"
    """There was no response in time."""
    NO_ROUTE = "no_route"
    """The network reported that the machine cannot be reached."""
    FAILED = "failed"
    """The connection failed on the machine that made it, which proves nothing."""

    @property
    def responds(self) -> bool:
        """Whether the machine responded."""
        return self in (Reach.GREETED, Reach.CONNECTED, Reach.REFUSED)


class PeerProbes(msgspec.Struct, frozen=True, kw_only=True):
    """How nodes probe others that are silent."""

    enabled: bool = True
    port: int = 22
    """A TCP port at which a program of every machine sends a greeting."""
    within: timedelta = timedelta(seconds=5)
    """How long a probe waits for a response."""
