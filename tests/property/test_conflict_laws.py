"""Conflicts: a change is refused exactly if what it writes has moved since it was made."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from navarch.core.errors import ConflictError
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import CommandId
from navarch.stores import state_cache as heads
from navarch.stores.state_cache import StateCache

KNOWN = 5

writes = st.sets(st.sampled_from("abcdefgh"), min_size=1, max_size=3)


def change(names: set[str]) -> Change:
    return Change(forget_commands=[CommandId(name) for name in sorted(names)])


@given(
    commits=st.lists(writes, min_size=1, max_size=20), wanted=writes, ago=st.integers(-1, 2 * KNOWN)
)
@example(commits=[{"a"}] * 8, wanted={"h"}, ago=KNOWN + 1)  # Too old, though nothing was written.
def test_a_change_conflicts_exactly_if_what_it_writes_was_written_since(
    commits: list[set[str]], wanted: set[str], ago: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heads, "RECENT_MAX", KNOWN)
        head = StateCache(Fleet())
        begin = head.fleet.revision
        for names in commits:
            touched = head.check(change(names), head.fleet.revision)
            head.advance(change(names), touched)
    based_on = head.fleet.revision - ago
    since = list(enumerate(commits, begin + 1))[-KNOWN:]
    moved = [revision for revision, names in since if revision > based_on and names & wanted]
    known = ago >= 0 and based_on >= since[0][0] - 1

    if known and not moved:
        head.check(change(wanted), based_on)
        return
    with pytest.raises(ConflictError) as caught:
        head.check(change(wanted), based_on)
    if known:
        both = ", ".join(f"command {name}" for name in sorted(dict(since)[moved[-1]] & wanted))
        assert str(caught.value) == f"based on {based_on}, but revision {moved[-1]} moved {both}"
