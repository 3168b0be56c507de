"""Whoever has something to do at the same place does it one after the other."""

import asyncio
from collections.abc import Callable, Coroutine

from navarch.service.keyed_lock import KeyedLock

HOPS = 5
"""More steps of the loop than anything here takes."""


class Story:
    """Visitors who stay at a place until they are told to go."""

    def __init__(self) -> None:
        self.turns = KeyedLock()
        self.told: list[str] = []
        self.may_go: dict[str, asyncio.Event] = {}

    async def visit(self, name: str, place: str = "here") -> None:
        """Come, stay and leave."""
        self.may_go[name] = asyncio.Event()
        await self.turns.take(place, self._stay, name, place)
        self.told.append(f"{name} left")

    async def _stay(self, name: str, place: str) -> None:
        self.told.append(f"{name} is {place}")
        await self.may_go[name].wait()

    async def come(self, *visits: Coroutine[object, object, None]) -> list[asyncio.Task[None]]:
        """Let visitors come, in that order."""
        tasks = [asyncio.ensure_future(visit) for visit in visits]
        await self.pass_time()
        return tasks

    async def go(self, name: str) -> None:
        """Tell somebody to go."""
        self.may_go[name].set()
        await self.pass_time()

    async def pass_time(self) -> None:
        """Let everybody do what they can."""
        for _ in range(HOPS):
            await asyncio.sleep(0)

    @property
    def is_forgotten(self) -> bool:
        """Whether nothing is kept of any place."""
        return not self.turns._waiting


def told(story: Callable[[Story], Coroutine[object, object, None]]) -> list[str]:
    async def play() -> list[str]:
        stage = Story()
        await story(stage)
        assert stage.is_forgotten
        return stage.told

    return asyncio.run(play())


def test_those_who_come_to_one_place_go_in_the_order_in_which_they_came() -> None:
    async def story(stage: Story) -> None:
        await stage.come(*(stage.visit(name) for name in "abc"))
        for name in "abc":
            await stage.go(name)

    assert told(story) == ["a is here", "a left", "b is here", "b left", "c is here", "c left"]


def test_nobody_waits_for_those_at_another_place() -> None:
    async def story(stage: Story) -> None:
        await stage.come(stage.visit("a"), stage.visit("b", "there"))
        await stage.go("b")
        await stage.go("a")

    assert told(story) == ["a is here", "b is there", "b left", "a left"]


def test_who_comes_while_a_place_changes_hands_waits_behind_those_who_waited() -> None:
    async def story(stage: Story) -> None:
        await stage.come(stage.visit("a"), stage.visit("b"))
        stage.may_go["a"].set()
        await asyncio.sleep(0)
        await stage.come(stage.visit("c"))
        await stage.go("b")
        await stage.go("c")

    assert told(story) == ["a is here", "a left", "b is here", "b left", "c is here", "c left"]


def test_who_gives_up_waiting_is_passed_over() -> None:
    async def story(stage: Story) -> None:
        _, second, _ = await stage.come(*(stage.visit(name) for name in "abc"))
        second.cancel()
        await stage.pass_time()
        await stage.go("a")
        await stage.go("c")
        assert second.cancelled()

    assert told(story) == ["a is here", "a left", "c is here", "c left"]


def test_who_gives_up_in_the_moment_the_place_is_left_to_them_leaves_it_to_the_next() -> None:
    async def story(stage: Story) -> None:
        first, second, _ = await stage.come(*(stage.visit(name) for name in "abc"))
        stage.may_go["a"].set()
        while not first.done():
            await asyncio.sleep(0)
            if "a left" in stage.told:
                second.cancel()
                break
        await stage.pass_time()
        await stage.go("c")
        assert second.cancelled()

    assert told(story) == ["a is here", "a left", "c is here", "c left"]


def test_a_place_is_left_also_by_who_is_thrown_out() -> None:
    async def story(stage: Story) -> None:
        first, _ = await stage.come(stage.visit("a"), stage.visit("b"))
        first.cancel()
        await stage.pass_time()
        await stage.go("b")

    assert told(story) == ["a is here", "b is here", "b left"]
