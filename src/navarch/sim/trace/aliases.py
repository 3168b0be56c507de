"""Aliases: names that tell things apart and say nothing else about them."""

from collections import defaultdict
from dataclasses import dataclass, field


@dataclass(slots=True)
class Aliases:
    """Gives everything of a kind a number, in the order in which it is first met."""

    _known: dict[str, dict[object, str]] = field(default_factory=lambda: defaultdict(dict))

    def of(self, kind: str, name: object) -> str:
        """Return the alias of something: `zone-2`; of nothing, nothing."""
        if not name:
            return ""
        known = self._known[kind]
        return known.setdefault(name, f"{kind}-{len(known) + 1}")

    def put(self, kind: str, name: object, alias: str) -> None:
        """Let something be called `alias` from now on."""
        self._known[kind][name] = alias

    def known(self, kind: str, name: object) -> str | None:
        """Return the alias of something that has been met."""
        return self._known[kind].get(name)
