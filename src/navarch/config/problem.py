"""Problems: what is wrong with a configuration, where, and what would be right."""

from collections.abc import Sequence
from dataclasses import dataclass

from navarch.config.place import Place
from navarch.core.errors import NavarchError

SHOWN_MAX = 100
"""More than this nobody reads; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong, or in a warning: doubtful."""

    source: str
    message: str
    place: Place | None = None
    """None when there is no text to point at, as for a file that is not there."""
    excerpt: str = ""
    """The line in question and a caret below it, secrets left out."""
    remedy: str = ""
    """What would be right."""

    def __str__(self) -> str:
        where = f":{self.place.line}:{self.place.column}" if self.place else ""
        lines = [f"{self.source}{where}: {self.message}"]
        if self.excerpt:
            lines.append(self.excerpt)
        if self.remedy:
            lines.append(f"  help: {self.remedy}")
        return "\n".join(lines)


class ConfigError(NavarchError):
    """A configuration that cannot be used, with every reason why."""

    def __init__(self, problems: Sequence[Problem], *, stage: str = "invalid config") -> None:
        assert problems, "an error needs a reason"
        self.problems = tuple(problems)
        self.stage = stage
        """What was being done: reading, parsing or checking."""
        super().__init__(self._text())

    def _text(self) -> str:
        count = len(self.problems)
        number = "1 problem" if count == 1 else f"{count} problems"
        parts = [f"{self.stage}: {number}", *map(str, self.problems[:SHOWN_MAX])]
        if count > SHOWN_MAX:
            parts.append(f"... and {count - SHOWN_MAX} more")
        return "\n\n".join(parts)
