"""Agents that show a join token: who they are, and what little they may do."""

from collections.abc import Mapping

from navarch.api.auth import AUTHORIZATION, Identity
from navarch.core.joining import PREFIX
from navarch.ports.joining import Joins

AGENTS = "agents"
"""The group of those who may do what agents do, for their own node, and nothing else."""
TOKEN = "join-token"
_BEARER = b"bearer " + PREFIX.encode()


def shown_in(headers: Mapping[bytes, bytes]) -> str | None:
    """Return the join token that a request shows, if it shows one."""
    header = headers.get(AUTHORIZATION)
    if header is None or header[: len(_BEARER)].lower() != _BEARER:
        return None
    return header[7:].decode("ascii", errors="replace")


class JoinTokens:
    """Knows machines by their join tokens; whoever shows another kind is not its business."""

    def __init__(self, joins: Joins) -> None:
        self._joins = joins

    def authenticate(self, headers: Mapping[bytes, bytes]) -> Identity | None:
        """Return the machine that shows a join token."""
        shown = shown_in(headers)
        if shown is None:
            return None
        joiner = self._joins.recognize(shown)
        return Identity(
            subject=f"node:{joiner.node}",
            groups=(AGENTS,),
            extra={"node": joiner.node, TOKEN: shown},
        )
