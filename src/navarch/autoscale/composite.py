"""Asks several autoscalers and combines what they say."""

from collections.abc import Sequence
from dataclasses import dataclass

from navarch.core.autoscaling import Mode
from navarch.ports.autoscaler import Autoscaler, PoolState, Recommendation


@dataclass(frozen=True, slots=True, kw_only=True)
class Composite:
    """The largest, the smallest or the mean of several opinions, and everybody's reasons.

    A member that fails has no voice. As long as one fails the pool is not made smaller: it
    may be the one that knows of the work.
    """

    members: Sequence[Autoscaler]
    mode: Mode = Mode.MAX
    name: str = "composite"

    def recommend(self, state: PoolState) -> Recommendation:
        """Return the combined opinion."""
        opinions: list[int] = []
        reasons: list[str] = []
        for member in self.members:
            try:
                advice = member.recommend(state)
                opinions.append(_number(advice.target_nodes))
                reasons.append(f"{member.name} {advice.target_nodes}: {advice.reason}")
            except Exception as error:  # noqa: BLE001 - a member may be anybody's code
                reasons.append(f"{member.name} failed: {error!r}")
        if not opinions:
            raise ValueError(f"all autoscalers failed: [{'; '.join(reasons)}]")
        target = _combined(self.mode, opinions)
        if len(opinions) < len(self.members):
            target = max(target, state.current_nodes)
        word = f"{self.mode} of {len(self.members)} autoscalers"
        return Recommendation(target_nodes=target, reason=f"{word}: [{'; '.join(reasons)}]")


def _number(nodes: object) -> int:
    if type(nodes) is not int or nodes < 0:
        raise ValueError(f"{nodes!r} is no number of nodes")
    return nodes


def _combined(mode: Mode, opinions: Sequence[int]) -> int:
    match mode:
        case Mode.MAX:
            return max(opinions)
        case Mode.MIN:
            return min(opinions)
        case Mode.AVG:
            return sum(opinions) // len(opinions)
