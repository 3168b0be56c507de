"""What a cycle does, step by step, least disruptive first."""

from collections.abc import Callable, Mapping

from navarch.core.errors import InvalidError
from navarch.scheduler.actions.allocate import allocate
from navarch.scheduler.actions.consolidation import consolidate
from navarch.scheduler.actions.preempt import preempt
from navarch.scheduler.actions.reclaim import reclaim
from navarch.scheduler.actions.stalegangeviction import evict_stale_gangs
from navarch.scheduler.framework.session import Session

Action = Callable[[Session], None]

ACTIONS: Mapping[str, Action] = {
    "allocate": allocate,
    "consolidation": consolidate,
    "reclaim": reclaim,
    "preempt": preempt,
    "stalegangeviction": evict_stale_gangs,
}


def find_action(name: str) -> Action:
    """Return the action called `name`.

    Raises:
        InvalidError: There is none.
    """
    if name not in ACTIONS:
        raise InvalidError(f"no action is called {name!r}; there are: {', '.join(ACTIONS)}")
    return ACTIONS[name]
