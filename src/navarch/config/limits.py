"""Limits on the size of a document, which protect the server from YAML bombs.

A few hundred bytes of YAML can expand to gigabytes, because an alias repeats what its anchor
names. Sizes are therefore counted with every alias expanded, over the stream of parser events
and before any tree is built.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import yaml

from navarch.config.errors import Place, Problem, Source

TEXT_MAX = 1 << 20
"""Characters. A thousand pools take about a third of this."""

DEPTH_MAX = 32
NODES_MAX = 100_000
ALIASES_MAX = 1_000


@dataclass(slots=True)
class _OpenCollection:
    """An unfinished collection; its size and height count expanded aliases."""

    anchor: str | None
    size: int = 1
    height: int = 1


@dataclass(slots=True)
class _SizeCounter:
    source: Source
    open: list[_OpenCollection] = field(default_factory=list)
    anchors: dict[str, tuple[int, int]] = field(default_factory=dict)
    aliases: int = 0
    documents: int = 0
    nodes: int = 0

    def take(self, event: yaml.Event) -> Problem | None:
        """Count one event; return the limit that it exceeds, if any."""
        match event:
            case yaml.DocumentStartEvent():
                self.documents += 1
                if self.documents > 1:
                    text = "a second document begins here"
                    return self._problem(event, text, "keep one per file")
            case yaml.AliasEvent():
                return self._alias(event)
            case yaml.ScalarEvent():
                return self._closed(event, event.anchor, 1, 0)
            case yaml.CollectionStartEvent():
                self.open.append(_OpenCollection(event.anchor))
                return self._deep(event, len(self.open))
            case yaml.CollectionEndEvent():
                done = self.open.pop()
                return self._closed(event, done.anchor, done.size, done.height)
        return None

    def _alias(self, event: yaml.AliasEvent) -> Problem | None:
        name = event.anchor
        self.aliases += 1
        if self.aliases > ALIASES_MAX:
            return self._problem(event, f"more than {ALIASES_MAX} aliases", _SMALLER)
        if any(collection.anchor == name for collection in self.open):
            return self._problem(event, f"*{name} is inside &{name}, so it would never end")
        if name not in self.anchors:
            return self._problem(event, f"*{name} has no anchor", f"write &{name} above it")
        return self._closed(event, None, *self.anchors[name])

    def _closed(
        self, event: yaml.Event, anchor: str | None, size: int, height: int
    ) -> Problem | None:
        if anchor is not None:
            self.anchors[anchor] = (size, height)
        total = size
        if self.open:
            around = self.open[-1]
            around.size += size
            around.height = max(around.height, height + 1)
            total = around.size
        if total > NODES_MAX:
            text = f"more than {NODES_MAX} values, counting each alias in full"
            return self._problem(event, text, _SMALLER)
        return self._deep(event, len(self.open) + height)

    def _deep(self, event: yaml.Event, depth: int) -> Problem | None:
        if depth > DEPTH_MAX:
            return self._problem(event, f"nested more than {DEPTH_MAX} deep", _SMALLER)
        return None

    def _problem(self, event: yaml.Event, message: str, remedy: str = "") -> Problem:
        mark = event.start_mark
        assert mark is not None, "parsed events have a place"
        return self.source.problem(Place(mark.line + 1, mark.column + 1), message, remedy)


_SMALLER = "split the fleet over several control planes, or shorten the file"


def check_size(source: Source) -> Problem | None:
    """Return a problem if a text is too long to parse."""
    if len(source.text) <= TEXT_MAX:
        return None
    return Problem(
        source=source.name, message=f"longer than {TEXT_MAX} characters", remedy=_SMALLER
    )


def check_events(source: Source, events: Iterable[yaml.Event]) -> Problem | None:
    """Return a problem if a document is too large, too deep or recursive."""
    gauge = _SizeCounter(source)
    for event in events:
        problem = gauge.take(event)
        if problem is not None:
            return problem
    return None
