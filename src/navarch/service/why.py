"""The reasons for the state of a subject: its events, and the events behind those."""

from collections.abc import Sequence

from navarch.control.runtime.journal import read_back
from navarch.core.errors import NotFoundError
from navarch.core.event import Recorded, Subject
from navarch.core.event import about as subject_of
from navarch.ports.api import Step, Why
from navarch.ports.store import Store

NODE, LAUNCH = "node", "launch"
STEPS_MAX = 50
DEPTH_MAX = 4


async def explain(store: Store, about: Subject) -> Why:
    """Return the chain of reasons for the present state of `about`.

    A launch may be given by the name of its node, which is the name that operators use.
    """
    why = await _chain(store, about, before=None, explained={about}, depth=0)
    if why is not None:
        return why
    kind, _, name = about.partition("/")
    launch = await _launch_for(store, name) if kind == LAUNCH else None
    if launch is None:
        hint = "; a launch is also found by the name of its node" if kind == LAUNCH else ""
        raise NotFoundError(f"no {kind} named {name!r} in the journal{hint}")
    return await explain(store, launch)


async def _launch_for(store: Store, node: str) -> Subject | None:
    """Return the last launch in the events of a node."""
    async for entry in read_back(store, about=subject_of(NODE, node)):
        causes = [cause for cause in entry.event.because if cause.startswith(f"{LAUNCH}/")]
        if causes:
            return causes[-1]
        if LAUNCH in entry.event.facts:
            return subject_of(LAUNCH, entry.event.facts[LAUNCH])
    return None


async def _chain(
    store: Store, about: Subject, *, before: int | None, explained: set[Subject], depth: int
) -> Why | None:
    """Return the events of `about` before event number `before`, newest first.

    A subject that was explained higher up is not explained again.
    """
    entries = await store.events(before=before, about=about, newest_first=True, limit=STEPS_MAX)
    if not entries:
        return None
    steps = []
    for entry in entries:
        behind = []
        for cause in entry.event.because:
            if cause in explained or depth >= DEPTH_MAX:
                continue
            explained.add(cause)
            chain = await _chain(
                store, cause, before=entry.number, explained=explained, depth=depth + 1
            )
            if chain is not None:
                behind.append(chain)
        steps.append(
            Step(
                number=entry.number,
                at=entry.event.at,
                kind=entry.event.kind,
                reason=entry.event.reason,
                because=tuple(behind),
                details=tuple(entry.event.facts.get("options", "").splitlines()),
            )
        )
    return Why(about=about, state=_state(entries), steps=tuple(steps))


def _state(entries: Sequence[Recorded]) -> str:
    """Return the newest phase and health in the facts, or the last kind of event."""
    newest: dict[str, str] = {}
    for entry in reversed(entries):
        newest |= entry.event.facts
    words = [newest[key] for key in ("phase", "health") if key in newest]
    return ", ".join(words) or entries[0].event.kind.rpartition(".")[2]
