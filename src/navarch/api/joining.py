"""Authentication of agents with a join token."""

from collections.abc import Mapping

from navarch.api.auth import AUTHORIZATION, Identity
from navarch.core.joining import PREFIX
from navarch.ports.joining import Joins

AGENTS = "agents"
"""The group of callers that may only make agent calls, for their own node."""
TOKEN = "join-token"
_BEARER = b"bearer " + PREFIX.encode()


def shown_in(headers: Mapping[bytes, bytes]) -> str | None:
    """Return the join token in the headers, if there is one."""
    header = headers.get(AUTHORIZATION)
    if header is None or header[: len(_BEARER)].lower() != _BEARER:
        return None
    return header[7:].decode("ascii", errors="replace")


class JoinTokens:
    """Identifies machines by their join tokens; ignores other credentials."""

    def __init__(self, joins: Joins) -> None:
        self._joins = joins

    def authenticate(self, headers: Mapping[bytes, bytes]) -> Identity | None:
        """Return the identity of the machine with the join token."""
        shown = shown_in(headers)
        if shown is None:
            return None
        joiner = self._joins.recognize(shown)
        return Identity(
            subject=f"node:{joiner.node}",
            groups=(AGENTS,),
            extra={"node": joiner.node, TOKEN: shown},
        )
