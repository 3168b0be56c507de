"""The contract of every store. Subclass it, supply a store, and run it with pytest."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from navarch.core.disruption import Deferred, DeferredBy
from navarch.core.errors import ConflictError, SupersededError
from navarch.core.event import Event, about
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import CommandId, IncidentId, InstanceId, JobName, NodeId, Token
from navarch.core.incident import Incident, IncidentKind, Symptom
from navarch.core.instance import Gpu, Inventory
from navarch.core.job import Job, JobState
from navarch.core.launch import Launch
from navarch.core.node import DRIVER, Phase, Trait
from navarch.core.records import evolve
from navarch.core.recovery import (
    Command,
    CommandKind,
    Recovery,
    RecoveryAttempt,
    RecoveryState,
    RecoveryStep,
    recovery_id,
)
from navarch.ports.store import Committed, Store
from navarch.testing.worlds import NOW, a_node, a_pool

T = TypeVar("T")

POOL = a_pool()
NODE = a_node(
    "training-0",
    traits={DRIVER: Trait(value="550", since=NOW).followed_by("570", at=NOW)},
    held=Deferred(
        action="replace",
        reason="unhealthy",
        because="the driver",
        by=DeferredBy.CHANGE,
        since=NOW,
        faults=("xid 119",),
    ),
)
EVENT = Event(at=NOW, about=about("node", NODE.id), kind="node.requested", reason="because")
INCIDENT = Incident(
    id=IncidentId("inc-1"),
    kind=IncidentKind.HARDWARE,
    node=NODE.id,
    nodes=(NODE.id,),
    pool=NODE.pool,
    opened_at=NOW,
    last_at=NOW,
    title="XID 48",
    check="xid/48/GPU-0",
    code="48",
    symptoms=(
        Symptom(check="xid/48/GPU-0", reason="XID 48", node=NODE.id, first_at=NOW, last_at=NOW),
    ),
)


class StoreContract:
    """One promise per test. `reopen` opens the store again, as after a crash."""

    def open(self) -> Store:
        raise NotImplementedError

    def reopen(self, store: Store) -> Store:
        """Return the store as a new process opens it."""
        raise NotImplementedError

    def supersede(self, store: Store) -> Store:
        """Return the store for a new leader, while the first process still runs."""
        raise NotImplementedError

    def run(self, story: Callable[[Store], Awaitable[None]]) -> Store:
        store = self.open()
        asyncio.run(_run(story, store))
        return store

    def test_a_new_store_is_empty_and_at_revision_zero(self) -> None:
        fleet = self.open().fleet()
        assert (fleet.revision, len(fleet.pools), len(fleet.nodes)) == (0, 0, 0)

    def test_each_opening_begins_a_later_term(self) -> None:
        store = self.open()
        first = store.term
        again = self.reopen(store)

        assert again.term > first >= 1

    def test_a_superseded_leader_writes_nothing_more(self) -> None:
        async def story(old: Store) -> None:
            await old.commit(Change(pools=[POOL]), based_on=0)
            new = self.supersede(old)
            assert new.term > old.term
            with pytest.raises(SupersededError):
                await old.commit(Change(nodes=[NODE], events=[EVENT]), based_on=1)
            with pytest.raises(SupersededError):
                await old.prune(NOW + timedelta(days=1))
            with pytest.raises(SupersededError):
                await old.confirm()
            await new.confirm()
            assert (new.fleet().revision, len(new.fleet().nodes)) == (1, 0)
            assert await new.events() == []

            fleet = await new.commit(Change(nodes=[NODE], events=[EVENT]), based_on=1)
            assert fleet.nodes[NODE.id] == NODE
            with pytest.raises(SupersededError):
                await old.commit(Change(pools=[POOL]), based_on=old.fleet().revision)

        self.run(story)

    def test_committed_records_are_read_back_unchanged(self) -> None:
        command = Command(
            id=CommandId("c1"),
            node=NODE.id,
            kind=CommandKind.DRAIN,
            parameters={"timeout": "5"},
            issued_at=NOW,
            expires_at=NOW + timedelta(hours=1),
        )
        inventory = Inventory(gpus=(Gpu(index=0, uuid="GPU-1"),), hostname="h")

        async def story(store: Store) -> None:
            change = Change(
                pools=[POOL],
                nodes=[NODE],
                commands=[command],
                inventories={NODE.id: inventory},
                events=[EVENT],
            )
            await store.commit(change, based_on=0)

        store = self.reopen(self.run(story))

        fleet = store.fleet()
        assert fleet.revision == 1
        assert fleet.pools[POOL.name] == POOL
        assert fleet.nodes[NODE.id] == NODE
        assert fleet.in_pool(POOL.name)[NODE.id] == NODE
        assert fleet.commands[command.id] == command
        assert asyncio.run(_of(store.inventory(NODE.id))) == inventory
        (entry,) = asyncio.run(_of(store.events()))
        assert (entry.number, entry.revision, entry.event) == (1, 1, EVENT)

    def test_incidents_are_stored_changed_and_deleted(self) -> None:
        grown = evolve(INCIDENT, gpus=("GPU-0", "GPU-1"), closed_at=NOW, note="over")

        async def story(store: Store) -> None:
            await store.commit(Change(incidents=[INCIDENT]), based_on=0)
            assert store.fleet().incidents[INCIDENT.id] == INCIDENT
            await store.commit(Change(incidents=[grown]), based_on=1)

        store = self.reopen(self.run(story))
        assert dict(store.fleet().incidents) == {INCIDENT.id: grown}

        async def forgetting(store: Store) -> None:
            await store.commit(Change(forget_incidents=[INCIDENT.id]), based_on=2)

        asyncio.run(_run(forgetting, store))
        assert dict(self.reopen(store).fleet().incidents) == {}

    def test_two_reports_cannot_each_open_an_incident_at_one_place(self) -> None:
        twin = evolve(INCIDENT, id=IncidentId("inc-2"))
        elsewhere = evolve(INCIDENT, id=IncidentId("inc-3"), node=NodeId("training-9"))

        async def story(store: Store) -> None:
            await store.commit(Change(incidents=[INCIDENT]), based_on=0)
            with pytest.raises(ConflictError):
                await store.commit(Change(incidents=[twin]), based_on=0)
            await store.commit(Change(incidents=[elsewhere]), based_on=0)

        assert list(self.run(story).fleet().incidents) == [INCIDENT.id, elsewhere.id]

    def test_recoveries_are_stored_changed_and_deleted(self) -> None:
        recovery = Recovery(
            id=recovery_id(NODE.id, "boot-1", "xid/95/GPU-0"),
            node=NODE.id,
            check="xid/95/GPU-0",
            cause="unhealthy: XID 95",
            boot_id="boot-1",
            gpus=("GPU-0",),
            step=RecoveryStep.RESET_GPU,
            state=RecoveryState.ORDERED,
            since=NOW,
            begun_at=NOW,
            deadline=NOW + timedelta(minutes=5),
            command=CommandId("c1"),
            ordered_boot="boot-1",
            tries={"reset_gpu": 1},
            history=(
                RecoveryAttempt(step=RecoveryStep.RESET_GPU, at=NOW, outcome="ordered", ran=True),
            ),
        )
        over = evolve(recovery, state=RecoveryState.SUCCEEDED, ended_at=NOW)
        other = evolve(recovery, id=recovery_id(NODE.id, "boot-2", "xid/95/GPU-0"))

        async def story(store: Store) -> None:
            await store.commit(Change(recoveries=[recovery, other]), based_on=0)
            with pytest.raises(ConflictError):
                await store.commit(Change(recoveries=[over]), based_on=0)
            await store.commit(Change(recoveries=[over], forget_recoveries=[other.id]), based_on=1)

        store = self.reopen(self.run(story))
        assert dict(store.fleet().recoveries) == {over.id: over}

    def test_jobs_are_stored_changed_and_deleted(self) -> None:
        job = Job(
            name=JobName("train"),
            submitted_at=NOW,
            since=NOW,
            queue="research",
            tasks=2,
            gpus=8,
            pool=POOL.name,
            gpu_type="H100",
            priority=70,
            preemptible=True,
            checkpointed_at=NOW,
        )
        nodes = (NodeId("training-0"), NodeId("training-1"))
        placed = job.to(JobState.PLACED, at=NOW, reason="found room", nodes=nodes)
        other = evolve(job, name=JobName("other"))

        async def story(store: Store) -> None:
            await store.commit(Change(jobs=[job, other]), based_on=0)
            assert dict(store.fleet().jobs) == {job.name: job, other.name: other}
            await store.commit(Change(jobs=[placed]), based_on=1)
            with pytest.raises(ConflictError):
                await store.commit(Change(jobs=[evolve(job, priority=1)]), based_on=1)
            await store.commit(Change(forget_jobs=[other.name]), based_on=2)

        store = self.reopen(self.run(story))
        assert dict(store.fleet().jobs) == {placed.name: placed}

    def test_nodes_keep_the_order_of_their_creation(self) -> None:
        names = ["training-9", "training-10", "training-1"]

        async def story(store: Store) -> None:
            await store.commit(Change(nodes=[a_node(name) for name in names]), based_on=0)
            moved = a_node("training-9").move_to(Phase.DRAINING, at=NOW)
            await store.commit(Change(nodes=[moved]), based_on=1)

        store = self.run(story)
        assert list(store.fleet().nodes) == names
        assert list(self.reopen(store).fleet().nodes) == names

    def test_a_change_based_on_an_old_revision_conflicts_and_writes_nothing(self) -> None:
        async def story(store: Store) -> None:
            await store.commit(Change(nodes=[NODE]), based_on=0)
            await store.commit(Change(nodes=[evolve(NODE, cordoned="first")]), based_on=1)
            late = Change(nodes=[evolve(NODE, cordoned="late")], events=[EVENT])
            with pytest.raises(ConflictError):
                await store.commit(late, based_on=1)

        store = self.reopen(self.run(story))
        assert store.fleet().nodes[NODE.id].cordoned == "first"
        assert store.fleet().revision == 2
        assert asyncio.run(_of(store.events())) == []

    def test_changes_to_different_nodes_do_not_conflict(self) -> None:
        async def story(store: Store) -> None:
            await store.commit(Change(nodes=[NODE]), based_on=0)
            await store.commit(Change(nodes=[a_node("training-1")]), based_on=0)

        assert len(self.run(story).fleet().nodes) == 2

    def test_a_change_that_depends_on_a_pool_conflicts_if_the_pool_has_changed(self) -> None:
        async def story(store: Store) -> None:
            await store.commit(Change(pools=[POOL]), based_on=0)
            await store.commit(Change(nodes=[NODE]), based_on=1)
            counted = Change(nodes=[a_node("training-1")], guards=[POOL.name])
            with pytest.raises(ConflictError):
                await store.commit(counted, based_on=1)
            await store.commit(counted, based_on=2)

        assert len(self.run(story).fleet().nodes) == 2

    def test_a_revision_from_the_future_is_refused(self) -> None:
        async def story(store: Store) -> None:
            with pytest.raises(ConflictError):
                await store.commit(Change(nodes=[NODE]), based_on=7)

        self.run(story)

    def test_exactly_one_of_many_concurrent_changes_to_a_node_succeeds(self) -> None:
        async def story(store: Store) -> None:
            await store.commit(Change(nodes=[NODE]), based_on=0)
            changes = [Change(nodes=[evolve(NODE, cordoned=str(i))]) for i in range(20)]
            results = await asyncio.gather(
                *(store.commit(change, based_on=1) for change in changes), return_exceptions=True
            )
            assert sum(isinstance(result, ConflictError) for result in results) == 19

        assert self.run(story).fleet().revision == 2

    def test_concurrent_changes_get_one_revision_each_in_the_order_of_their_calls(self) -> None:
        seen: list[tuple[int, str]] = []

        async def story(store: Store) -> None:
            def listen(done: Committed) -> None:
                seen.append((done.after.revision, done.change.nodes[0].id))

            store.subscribe(listen)
            changes = [
                Change(nodes=[a_node(f"training-{i}")], events=[evolve(EVENT, reason=str(i))])
                for i in range(50)
            ]
            fleets = await asyncio.gather(*(store.commit(each, based_on=0) for each in changes))
            assert [fleet.revision for fleet in fleets] == list(range(1, 51))
            assert len(fleets[9].nodes) == 10, "each sees what came before it, and no more"

        store = self.reopen(self.run(story))
        assert seen == [(i + 1, f"training-{i}") for i in range(50)]
        assert len(store.fleet().nodes) == 50
        entries = asyncio.run(_of(store.events()))
        assert [(x.revision, x.event.reason) for x in entries] == [
            (i + 1, str(i)) for i in range(50)
        ]

    def test_deleting_a_node_deletes_its_inventory(self) -> None:
        async def story(store: Store) -> None:
            change = Change(pools=[POOL], nodes=[NODE], inventories={NODE.id: Inventory()})
            await store.commit(change, based_on=0)
            await store.commit(Change(forget_nodes=[NODE.id]), based_on=1)

        store = self.reopen(self.run(story))
        assert NODE.id not in store.fleet().nodes
        assert NODE.id not in store.fleet().in_pool(POOL.name)
        assert asyncio.run(_of(store.inventory(NODE.id))) is None

    def test_the_inventories_of_many_nodes_are_read_at_once(self) -> None:
        nodes = [evolve(NODE, id=NodeId(f"node '{i}%")) for i in range(2000)]
        held = {x.id: Inventory(hostname=f"host-{i}") for i, x in enumerate(nodes[1:])}

        async def story(store: Store) -> None:
            await store.commit(Change(pools=[POOL], nodes=nodes, inventories=held), based_on=0)

        store = self.reopen(self.run(story))
        wanted = [NodeId("unknown"), *(node.id for node in nodes[:1500])]
        found = asyncio.run(_of(store.inventories(wanted)))
        assert found == {name: held[name] for name in wanted if name in held}
        assert asyncio.run(_of(store.inventories([]))) == {}

    def test_the_ledger_distinguishes_two_machines_of_one_launch(self) -> None:
        launch = NODE.launch
        assert launch is not None
        twin = evolve(launch, instance=None)

        async def story(store: Store) -> None:
            await store.commit(Change(launches=[launch, twin]), based_on=0)
            ended = evolve(launch, ended_at=NOW)
            await store.commit(Change(launches=[ended]), based_on=1)

        store = self.reopen(self.run(story))
        past = asyncio.run(_of(store.launches(pool=POOL.name)))
        assert sorted((x.instance or "", x.ended_at) for x in past) == [
            ("", None),
            (launch.instance or "", NOW),
        ]

    def test_the_ledger_can_be_read_a_page_at_a_time(self) -> None:
        launch = NODE.launch
        assert launch is not None
        all_of_them = [
            evolve(launch, token=Token(f"t-{i % 4}"), instance=InstanceId(f"i-{i}"))
            for i in range(7)
        ]

        async def story(store: Store) -> None:
            await store.commit(Change(launches=all_of_them), based_on=0)

        store = self.reopen(self.run(story))
        whole = list(asyncio.run(_of(store.launches())))
        paged: list[Launch] = []
        while page := asyncio.run(_of(store.launches(after=paged[-1] if paged else None, limit=3))):
            assert len(page) <= 3
            paged += page
        assert paged == whole
        assert len(paged) == 7

    def test_the_ledger_forgets_single_machines(self) -> None:
        launch = NODE.launch
        assert launch is not None
        twin = evolve(launch, instance=None)

        async def story(store: Store) -> None:
            await store.commit(Change(launches=[launch, twin]), based_on=0)
            await store.commit(Change(forget_launches=[(launch.token, None)]), based_on=1)

        store = self.reopen(self.run(story))
        assert list(asyncio.run(_of(store.launches()))) == [launch]

    def test_listeners_receive_every_commit_in_order_until_they_unsubscribe(self) -> None:
        seen: list[tuple[int, int]] = []

        async def story(store: Store) -> None:
            def listen(done: Committed) -> None:
                seen.append((done.before.revision, done.after.revision))

            leave = store.subscribe(listen)
            for revision in range(3):
                node = a_node(f"training-{revision}")
                await store.commit(Change(nodes=[node]), based_on=revision)
            leave()
            await store.commit(Change(nodes=[a_node("training-9")]), based_on=3)

        self.run(story)
        assert seen == [(0, 1), (1, 2), (2, 3)]

    def test_a_commit_is_written_and_raises_the_error_of_a_failing_listener(self) -> None:
        seen: list[int] = []

        def fail(done: Committed) -> None:
            if NODE.id in done.after.nodes and NODE.id not in done.before.nodes:
                raise RuntimeError("a listener failed")

        async def story(store: Store) -> None:
            store.subscribe(fail)
            store.subscribe(lambda done: seen.append(done.after.revision))
            nodes = [a_node("training-1"), NODE, a_node("training-2")]
            commits = [store.commit(Change(nodes=[node]), based_on=0) for node in nodes]
            async with asyncio.timeout(10):
                first, error, last = await asyncio.gather(*commits, return_exceptions=True)
            assert isinstance(first, Fleet)
            assert isinstance(error, RuntimeError)
            assert isinstance(last, Fleet)
            await store.commit(Change(pools=[POOL]), based_on=3)

        store = self.run(story)
        assert seen == [1, 2, 3, 4]
        assert set(self.reopen(store).fleet().nodes) == {NODE.id, "training-1", "training-2"}

    def test_an_earlier_fleet_snapshot_does_not_change(self) -> None:
        async def story(store: Store) -> None:
            await store.commit(Change(nodes=[NODE]), based_on=0)
            old = store.fleet()
            await store.commit(Change(nodes=[evolve(NODE, cordoned="new")]), based_on=1)
            assert old.nodes[NODE.id].cordoned is None
            assert store.fleet().nodes[NODE.id].cordoned == "new"

        self.run(story)

    def test_the_journal_is_read_in_parts_by_number_revision_and_subject(self) -> None:
        async def story(store: Store) -> None:
            for revision in range(5):
                event = evolve(EVENT, reason=str(revision))
                other = evolve(EVENT, about=about("pool", "training"), reason=f"p{revision}")
                await store.commit(Change(events=[event, other]), based_on=revision)
            first = await store.events(limit=3)
            rest = await store.events(after=first[-1].number)
            assert [x.number for x in (*first, *rest)] == list(range(1, 11))
            newer = await store.events(after_revision=4)
            assert [x.event.reason for x in newer] == ["4", "p4"]
            mine = await store.events(about=EVENT.about, after=2, limit=2)
            assert [x.event.reason for x in mine] == ["1", "2"]

        self.run(story)

    def test_the_journal_is_read_backwards_from_its_end_or_from_a_number(self) -> None:
        async def story(store: Store) -> None:
            for revision in range(5):
                event = evolve(EVENT, reason=str(revision))
                other = evolve(EVENT, about=about("pool", "training"), reason=f"p{revision}")
                await store.commit(Change(events=[event, other]), based_on=revision)

            async def numbers(**part: Any) -> list[int]:  # noqa: ANN401
                return [entry.number for entry in await store.events(**part)]

            assert await numbers(newest_first=True, limit=3) == [10, 9, 8]
            assert await numbers(newest_first=True, before=8, limit=3) == [7, 6, 5]
            assert await numbers(newest_first=True, before=3) == [2, 1]
            assert await numbers(newest_first=True, before=1) == []
            assert await numbers(newest_first=True, after=8, limit=5) == [10, 9]
            assert await numbers(newest_first=True, after_revision=3, before=9) == [8, 7]
            assert await numbers(before=4) == [1, 2, 3]
            mine = {"about": EVENT.about, "newest_first": True, "limit": 2}
            assert await numbers(**mine) == [9, 7]
            assert await numbers(**mine, before=7) == [5, 3]

        self.run(story)

    def test_a_pruned_journal_reports_its_first_number_and_keeps_counting(self) -> None:
        async def story(store: Store) -> None:
            old = evolve(EVENT, at=NOW - timedelta(days=100))
            await store.commit(Change(events=[old]), based_on=0)
            await store.commit(Change(events=[EVENT]), based_on=1)
            await store.prune(NOW - timedelta(days=90))
            await store.commit(Change(events=[EVENT]), based_on=2)

        store = self.reopen(self.run(story))
        assert store.journal_start == 1
        assert [x.number for x in asyncio.run(_of(store.events()))] == [2, 3]

    def test_a_long_journal_is_pruned_in_pieces_and_each_piece_is_durable(self) -> None:
        async def filled(store: Store) -> None:
            for revision in range(10):
                event = evolve(EVENT, at=NOW - timedelta(days=100 - revision))
                await store.commit(Change(events=[event] * 3), based_on=revision)
            await store.commit(Change(events=[EVENT]), based_on=10)

        store = self.run(filled)
        starts = []

        async def piece(store: Store) -> None:
            starts.append(await store.prune(NOW - timedelta(days=92), limit=5))

        while not starts or starts[-1]:
            asyncio.run(_run(piece, store))
            store = self.reopen(store)
            start = 2 * len(starts) if starts[-1] else 8
            entries = asyncio.run(_of(store.events()))
            assert store.journal_start == start, "whole revisions"
            assert [x.number for x in entries] == list(range(3 * start + 1, 32))
        assert starts == [True, True, True, True, False]

    def test_a_revision_larger_than_a_piece_is_pruned_whole(self) -> None:
        async def story(store: Store) -> None:
            old = evolve(EVENT, at=NOW - timedelta(days=100))
            await store.commit(Change(events=[old] * 7), based_on=0)
            await store.commit(Change(events=[EVENT]), based_on=1)
            await store.prune(NOW, limit=2)
            assert [x.number for x in await store.events()] == [8]

        assert self.run(story).journal_start == 1

    def test_pruning_keeps_a_revision_with_an_event_that_is_not_due(self) -> None:
        async def story(store: Store) -> None:
            old = evolve(EVENT, at=NOW - timedelta(days=100))
            await store.commit(Change(events=[old]), based_on=0)
            await store.commit(Change(events=[old, EVENT]), based_on=1)
            assert not await store.prune(NOW - timedelta(days=90))
            assert [x.number for x in await store.events()] == [2, 3]

        assert self.run(story).journal_start == 1

    def test_an_event_of_a_clock_that_was_wrong_does_not_prune_those_before_it(self) -> None:
        async def story(store: Store) -> None:
            wrong = evolve(EVENT, at=NOW - timedelta(days=400))
            await store.commit(Change(events=[EVENT]), based_on=0)
            await store.commit(Change(events=[wrong]), based_on=1)
            assert not await store.prune(NOW - timedelta(days=90))
            assert [x.number for x in await store.events()] == [1, 2]

        assert self.run(story).journal_start == 0

    def test_commits_between_two_pieces_are_kept_and_numbers_are_never_used_again(self) -> None:
        async def story(store: Store) -> None:
            old = evolve(EVENT, at=NOW - timedelta(days=100))
            for revision in range(4):
                await store.commit(Change(events=[old]), based_on=revision)
            pruning = [store.prune(NOW - timedelta(days=90), limit=1) for _ in range(4)]
            commits = [store.commit(Change(events=[EVENT]), based_on=4) for _ in range(4)]
            await asyncio.gather(*(call for pair in zip(pruning, commits) for call in pair))  # noqa: B905
            assert [x.number for x in await store.events()] == [5, 6, 7, 8]
            assert await store.prune(NOW + timedelta(days=1)) is False
            await store.commit(Change(events=[EVENT]), based_on=8)
            assert [x.number for x in await store.events()] == [9]

        assert self.run(story).fleet().revision == 9

    def test_shrinking_changes_nothing_that_is_stored(self) -> None:
        async def story(store: Store) -> None:
            old = evolve(EVENT, at=NOW - timedelta(days=100))
            await store.commit(Change(pools=[POOL], nodes=[NODE], events=[old] * 9), based_on=0)
            await store.commit(Change(events=[EVENT]), based_on=1)
            await store.prune(NOW - timedelta(days=90))
            while await store.shrink():
                pass

        store = self.reopen(self.run(story))
        assert dict(store.fleet().nodes) == {NODE.id: NODE}
        assert [x.number for x in asyncio.run(_of(store.events()))] == [10]

    def test_events_of_a_subject_stay_correct_through_commits_and_pruning(self) -> None:
        async def story(store: Store) -> None:
            async def numbers() -> list[int]:
                return [x.number for x in await store.events(about=EVENT.about)]

            other = evolve(EVENT, about=about("pool", "training"))
            old = evolve(EVENT, at=NOW - timedelta(days=100))
            assert await numbers() == []
            await store.commit(Change(events=[old, evolve(other, at=old.at)]), based_on=0)
            assert await numbers() == [1]
            assert await numbers() == [1]
            await store.commit(Change(events=[other, EVENT]), based_on=1)
            assert await numbers() == [1, 4]
            await store.prune(NOW - timedelta(days=90))
            assert await numbers() == [4]
            await store.commit(Change(events=[EVENT]), based_on=2)
            assert await numbers() == [4, 5]
            assert [*await store.events(about=about("node", "absent"))] == []

        self.run(story)

    def test_a_reader_resumes_at_its_cursor_in_the_journal(self) -> None:
        async def story(store: Store) -> None:
            await store.commit(Change(cursors={"slack": 7}), based_on=0)
            await store.commit(Change(cursors={"slack": 9, "log": 1}), based_on=1)

        store = self.reopen(self.run(story))
        assert [store.cursor(name) for name in ("slack", "log", "absent")] == [9, 1, None]

    def test_the_identity_of_the_cluster_is_as_durable_as_the_fleet(self) -> None:
        async def story(store: Store) -> None:
            await store.commit(Change(nodes=[NODE]), based_on=0)

        store = self.run(story)
        before = store.cluster
        assert len(before.secret) >= 32
        assert self.reopen(store).cluster == before

    def test_a_cancelled_commit_is_either_complete_or_absent(self) -> None:
        async def story(store: Store) -> None:
            task = asyncio.get_running_loop().create_task(
                store.commit(Change(nodes=[NODE], events=[EVENT]), based_on=0)
            )
            await asyncio.sleep(0)  # noqa: TID251 - yields to the loop, waits for nothing
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await store.commit(
                Change(nodes=[a_node("training-1")]), based_on=store.fleet().revision
            )

        store = self.run(story)
        found = self.reopen(store).fleet()
        assert dict(found.nodes) == dict(store.fleet().nodes)
        assert (NODE.id in found.nodes) == (found.revision == 2)
        assert NodeId("training-1") in found.nodes


async def _run(story: Callable[[Store], Awaitable[None]], store: Store) -> None:
    await story(store)


async def _of(awaitable: Awaitable[T]) -> T:
    return await awaitable
