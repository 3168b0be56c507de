"""Aliases: anonymous names, numbered by kind."""

from collections import defaultdict
from dataclasses import dataclass, field


@dataclass(slots=True)
class Aliases:
    """Assigns each name of a kind a number, in order of first use."""

    _known: dict[str, dict[object, str]] = field(default_factory=lambda: defaultdict(dict))

    def of(self, kind: str, name: object) -> str:
        """Return the alias of a name, such as `zone-2`; an empty name has an empty alias."""
        if not name:
            return ""
        known = self._known[kind]
        return known.setdefault(name, f"{kind}-{len(known) + 1}")

    def put(self, kind: str, name: object, alias: str) -> None:
        """Set the alias of a name."""
        self._known[kind][name] = alias

    def known(self, kind: str, name: object) -> str | None:
        """Return the alias of a name that already has one."""
        return self._known[kind].get(name)
