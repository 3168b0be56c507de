"""Windows: how often a condition has held lately."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from navarch.health.policy.policy import COUNT_MAX

MatchKey = tuple[str, str, str]
"""A node, a rule, and the GPU (empty for the node as a whole)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """One event for which a rule's condition held."""

    key: MatchKey
    at: datetime
    times: int = 1
    value: str = ""
    """What is counted, where different values are counted."""


class Windows:
    """The matches of rules that count, for as long as they count."""

    def __init__(self) -> None:
        self._matches: dict[str, dict[MatchKey, deque[Match]]] = {}
        """By node, so that one of many can be forgotten without looking at the others."""

    def count(
        self, match: Match, *, within: timedelta, distinct: bool, beside: Iterable[Match] = ()
    ) -> int:
        """Return how much there has been within the window that `match` ends, with it.

        What lies `beside` it is not remembered yet, and has happened all the same.
        """
        since = match.at - within
        alike = (m for m in beside if m.key == match.key)
        before = self._matches.get(match.key[0], {}).get(match.key, ())
        seen = dict.fromkeys((*before, *alike, match))
        kept = [m for m in seen if since < m.at <= match.at]
        if distinct:
            return len({m.value for m in kept if m.value})
        return sum(m.times for m in kept)

    def note(self, match: Match, *, within: timedelta) -> None:
        """Remember a match. One that is told of again is the same one."""
        of_node = self._matches.setdefault(match.key[0], {})
        kept = of_node.setdefault(match.key, deque(maxlen=COUNT_MAX))
        while kept and kept[0].at <= match.at - within:
            kept.popleft()
        if match not in kept:
            kept.append(match)

    def forget(self, node: str) -> None:
        """Drop what is remembered of a node."""
        self._matches.pop(node, None)
