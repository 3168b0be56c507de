"""Events, stories and watches, against a whole control plane."""

import asyncio
import json
from collections.abc import AsyncIterator

from cli_world import Desk, Place, a_desk, a_place

from navarch.core.errors import UnreachableError
from navarch.ports.api import FleetApi, Update


def with_two_nodes(place: Place) -> None:
    assert place.type("up --gpus 16 --type h100 --name demo --wait").exit_code == 0


def test_events_are_the_newest_in_order_and_can_be_narrowed() -> None:
    with a_place() as place:
        with_two_nodes(place)
        every = json.loads(place.type("events -o json").stdout)
        last = json.loads(place.type("events -o json --limit 2").stdout)
        mine = json.loads(place.type("events -o json --about node/demo-1").stdout)
        late = json.loads(place.type("events -o json --since 30s").stdout)

    numbers = [entry["number"] for entry in every]
    assert numbers == sorted(numbers)
    assert last == every[-2:]
    assert {entry["event"]["about"] for entry in mine} == {"node/demo-1"}
    assert 0 < len(late) < len(every)


def test_since_may_be_a_time_with_a_zone_and_nothing_else() -> None:
    with a_place() as place:
        with_two_nodes(place)
        every = place.type("events --since 2026-01-01T00:00:00Z -o json")
        assert len(json.loads(every.stdout)) > 5
        assert place.type("events --since 2026-01-01T00:00:00").exit_code == 2
        assert place.type("events --since soon").exit_code == 2
        assert place.type("events --about demo").exit_code == 2


def test_why_needs_no_kind_where_only_one_thing_has_the_name() -> None:
    with a_place() as place:
        with_two_nodes(place)
        story = json.loads(place.type("why demo-0 -o json").stdout)
        assert story["about"] == "node/demo-0"
        assert place.type("why pool demo").stdout.startswith("pool demo is ")
        assert place.type("why pool/demo").exit_code == 0
        assert place.type("why demo").stdout.startswith("pool demo is ")


def test_why_asks_which_where_two_things_have_the_name() -> None:
    with a_place() as place:
        place.type("up --gpus 8 --type h100 --name a")
        place.type("up --gpus 8 --type h100 --name a-0")
        place.wait(1)
        result = place.type("why a-0")

    assert result.exit_code == 2
    assert "a-0 is a node and a pool; pass the kind, such as: navarch why node a-0" in result.stderr


def test_why_of_nothing_is_not_found_and_of_nonsense_bad_usage() -> None:
    with a_place() as place:
        assert place.type("why nope").exit_code == 3
        assert place.type("why node nope").exit_code == 3
        assert place.type("why planet mars").exit_code == 2
        assert place.type("why a b c").exit_code == 2


def test_an_injected_fault_needs_to_be_said() -> None:
    with a_place() as place:
        with_two_nodes(place)
        assert place.type("sim inject demo-0").exit_code == 2
        assert place.type("sim inject demo-0 --xid 79 --check a").exit_code == 2
        assert place.type("sim inject nope --xid 79").exit_code == 3
        told = json.loads(place.type("sim inject demo-0 --xid 31 --gpu 3 -o json").stdout)
        assert told["reason"].startswith("XID 31 on GPU 3: a kernel touched memory")
        assert told["fatal"] is False
        hot = place.type(["sim", "inject", "demo-0", "--check", "thermal", "--health", "degraded"])
        assert hot.stdout.startswith("Node demo-0 will report thermal degraded\n")
        place.wait(40)
        assert "Degraded" in place.type("list").stdout
        place.type("sim inject demo-0 --check thermal --clear")
        place.wait(40)
        assert "thermal" not in place.type("get demo-0").stdout


class Brief:
    """A fleet whose watch ends after two changes, as when its server stops."""

    def __init__(self, fleet: FleetApi) -> None:
        self._fleet = fleet

    def __getattr__(self, name: str) -> object:
        return getattr(self._fleet, name)

    async def watch(self, *, after_revision: int | None = None) -> AsyncIterator[Update]:
        start = (await self._fleet.status()).revision if after_revision is None else after_revision
        await asyncio.sleep(3)
        await self._fleet.scale("w", 2, reason="more")  # type: ignore[arg-type]
        await asyncio.sleep(3)
        count = 0
        async for update in self._fleet.watch(after_revision=start):
            count += bool(update.events)
            yield update
            if count == 1:
                return


def brief(place: Place) -> Desk:
    assert place.world.control is not None
    api: FleetApi = Brief(place.world.control.fleet)  # type: ignore[assignment]
    return a_desk(api, runner=place.runner)


POOL = "pool create w --provider sim --type h100-8x --min 0 --max 3"


def test_watch_shows_the_answer_again_when_it_changes() -> None:
    with a_place() as place:
        place.type(POOL)
        result = brief(place).type("pool list --watch")

    assert result.exit_code == 0, result.output
    tables = result.stdout.split("\n\n")
    assert "0/0" in tables[0]
    assert "0/2" in tables[1]


def test_watch_writes_json_lines_for_programs() -> None:
    with a_place() as place:
        place.type(POOL)
        result = brief(place).type("pool list --watch -o json")
        yaml = brief(place).type("pool list --watch -o yaml")

    sizes = [json.loads(line)[0]["size"] for line in result.stdout.splitlines() if line]
    assert sizes[0] == 0
    assert sizes[-1] == 2
    assert yaml.exit_code == 2


def test_follow_goes_on_where_the_past_ended() -> None:
    with a_place() as place:
        place.type(POOL)
        result = brief(place).type("events --follow -o json")

    kinds = [json.loads(line)["event"]["kind"] for line in result.stdout.splitlines()]
    assert kinds[:2] == ["pool.created", "pool.scaled"]
    assert len(kinds) == len(set(result.stdout.splitlines())), "something was told twice"


class Restarting(Brief):
    """A fleet whose server is away when it is first asked for changes."""

    def __init__(self, fleet: FleetApi) -> None:
        super().__init__(fleet)
        self.absences = 3

    async def watch(self, *, after_revision: int | None = None) -> AsyncIterator[Update]:
        self.absences -= 1
        if self.absences >= 0:
            raise UnreachableError("the server hung up")
        async for update in self._fleet.watch(after_revision=after_revision):
            yield update


def test_a_wait_survives_a_restart_of_the_server() -> None:
    with a_place() as place:
        assert place.world.control is not None
        fleet = Restarting(place.world.control.fleet)
        api: FleetApi = fleet  # type: ignore[assignment]
        result = a_desk(api, runner=place.runner).type("up --gpus 8 --type h100 --name demo --wait")

    assert result.exit_code == 0, result.output
    assert fleet.absences < 0


def test_a_watch_that_loses_its_server_is_unreachable() -> None:
    with a_place() as place:
        assert place.world.control is not None
        api: FleetApi = Restarting(place.world.control.fleet)  # type: ignore[assignment]
        result = a_desk(api, runner=place.runner).type("status --watch")

    assert result.exit_code == 5
    assert "the server hung up" in result.stderr
