"""The API for machines that Navarch did not buy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from navarch.core.ids import NodeId, PoolName
from navarch.ports.api import NodeView


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineChoice:
    """Running machines: those named, and every one that has all of some labels."""

    names: tuple[str, ...] = ()
    """Ids of machines at their provider."""
    agents: Mapping[str, str] = field(default_factory=dict)
    """The self-registered node of a machine, if its agent is not named after the machine."""
    labels: Mapping[str, str] = field(default_factory=dict)
    provider: str = ""
    """The only provider to search; empty: every provider."""


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

    async def adopt(
        self, pool: PoolName, machines: MachineChoice, *, reason: str
    ) -> Sequence[NodeView]:
        """Take running machines with agents into a pool: all of them, or none.

        The pool grows as far as it must so that none of its machines is surplus. Machines that the
        pool has adopted already are returned as they are.
        """

    async def release(self, node: NodeId, *, reason: str) -> NodeView:
        """Give up an adopted machine without terminating it.

        The pool shrinks by one node, if its minimum allows, so that nothing is bought instead.
        """
