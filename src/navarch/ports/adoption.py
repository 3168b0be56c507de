"""The API for machines that Navarch did not buy."""

from typing import Protocol, runtime_checkable

from navarch.core.ids import NodeId
from navarch.ports.api import NodeView


@runtime_checkable
class AdoptionApi(Protocol):
    """The API for machines that Navarch did not buy, served in-process and over HTTP.

    Raises NotFoundError for an unknown name, InvalidError for an invalid request,
    NotPossibleError for one that does not fit the present state.
    """

    async def forget(self, node: NodeId, *, reason: str) -> NodeView:
        """Remove a self-registered node whose host no longer reports; its machine is not touched.

        An agent that reports again registers a new node of that name.
        """
