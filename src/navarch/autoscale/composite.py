"""Combines the recommendations of several autoscalers."""

from collections.abc import Sequence
from dataclasses import dataclass

from navarch.core.autoscaling import Mode
from navarch.ports.autoscaler import Autoscaler, PoolState, Recommendation


@dataclass(frozen=True, slots=True, kw_only=True)
class Composite:
    """The largest, the smallest or the mean recommendation, with the reasons of all members.

    A member that fails is left out. While one fails the pool does not shrink: the failing member
    may be the one that sees the load.
    """

    members: Sequence[Autoscaler]
    mode: Mode = Mode.MAX
    name: str = "composite"

    def recommend(self, state: PoolState) -> Recommendation:
        """Return the combined recommendation."""
        targets: list[int] = []
        reasons: list[str] = []
        for member in self.members:
            try:
                advice = member.recommend(state)
                targets.append(_checked(advice.target_nodes))
                reasons.append(f"{member.name} {advice.target_nodes}: {advice.reason}")
            except Exception as error:  # noqa: BLE001 - a member may be an extension
                reasons.append(f"{member.name} failed: {error!r}")
        if not targets:
            raise ValueError(f"all autoscalers failed: [{'; '.join(reasons)}]")
        if self.mode is Mode.AVG:
            target = sum(targets) // len(targets)
        else:
            target = max(targets) if self.mode is Mode.MAX else min(targets)
        if len(targets) < len(self.members):
            target = max(target, state.current_nodes)
        word = f"{self.mode} of {len(self.members)} autoscalers"
        return Recommendation(target_nodes=target, reason=f"{word}: [{'; '.join(reasons)}]")


def _checked(nodes: object) -> int:
    if type(nodes) is not int or nodes < 0:
        raise ValueError(f"{nodes!r} is no number of nodes")
    return nodes
