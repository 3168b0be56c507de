"""The date of the last policy change, which the governor may blame."""

import asyncio
from collections.abc import Awaitable, Callable

from navarch.app.leadership import SUBJECT, record_policies, revision_of
from navarch.core.health import Health
from navarch.core.ids import PoolName
from navarch.core.ownership import Cluster
from navarch.health.policy.engine import PolicySet, compile_policies
from navarch.health.policy.policy import Policy, Rule
from navarch.sim.kernel.clock import SimClock
from navarch.sim.kernel.loop import SimLoop
from navarch.stores.memory import MemoryStore


def rules(condition: str) -> Policy:
    rule = Rule(name="one", condition=condition, result=Health.UNHEALTHY)
    return Policy(name="mine", rules=(rule,))


OLD, NEW = (
    compile_policies(rules("event.gpu_index == 0")),
    compile_policies(rules("event.gpu_index == 1")),
)


def play(story: Callable[[SimClock, MemoryStore], Awaitable[None]]) -> MemoryStore:
    store = MemoryStore(Cluster(id="c", secret=b"x" * 32))
    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(_main(story, store))
    return store


async def _main(
    story: Callable[[SimClock, MemoryStore], Awaitable[None]], store: MemoryStore
) -> None:
    await story(SimClock(), store)


async def event_kinds(store: MemoryStore) -> list[str]:
    return [entry.event.kind for entry in await store.events(about=SUBJECT)]


def test_the_first_policy_of_a_fleet_is_not_a_change() -> None:
    async def story(clock: SimClock, store: MemoryStore) -> None:
        assert await record_policies(clock, store, OLD) is None
        await clock.sleep(3600)
        assert await record_policies(clock, store, OLD) is None, "a restart is none either"
        assert await event_kinds(store) == ["policy.loaded"]

    play(story)


def test_a_changed_rule_is_a_change_that_later_starts_still_date() -> None:
    async def story(clock: SimClock, store: MemoryStore) -> None:
        await record_policies(clock, store, OLD)
        await clock.sleep(3600)
        changed_at = clock.now()
        found = await record_policies(clock, store, NEW)
        assert found is not None
        assert (found.revision, found.since) == (revision_of(NEW), changed_at)

        await clock.sleep(3600)
        assert await record_policies(clock, store, NEW) == found, "it changed when it changed"
        assert await event_kinds(store) == ["policy.loaded", "policy.changed"]

    play(story)


def test_reverting_to_the_old_rules_is_a_change() -> None:
    async def story(clock: SimClock, store: MemoryStore) -> None:
        for book in (OLD, NEW):
            await record_policies(clock, store, book)
            await clock.sleep(60)
        found = await record_policies(clock, store, OLD)
        assert found is not None
        assert (found.revision, found.since) == (revision_of(OLD), clock.now())

    play(story)


def test_a_revision_identifies_exactly_these_rules() -> None:
    def revision(book: PolicySet) -> str:
        return revision_of(book)

    pool = {PoolName("a"): rules("event.gpu_index == 2")}
    assert revision(compile_policies(rules("event.gpu_index == 0"))) == revision(OLD)
    assert revision(NEW) != revision(OLD)
    with_pool = compile_policies(rules("event.gpu_index == 0"), pool)
    assert revision(with_pool) != revision(OLD), "a pool's own rules are rules"
    assert revision(OLD).startswith("mine@")
