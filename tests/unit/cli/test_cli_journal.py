"""`events`, `why` and `--watch` against a running control plane."""

import asyncio
import json
from collections.abc import AsyncIterator

from cli_fleet import Cli, FleetCli, make_cli, running_fleet

from navarch.core.errors import UnreachableError
from navarch.ports.api import FleetApi, Update


def with_two_nodes(fleet: FleetCli) -> None:
    assert fleet.run("up --gpus 16 --type h100 --name demo --wait").exit_code == 0


def test_events_shows_the_newest_in_order_and_filters_them() -> None:
    with running_fleet() as fleet:
        with_two_nodes(fleet)
        every = json.loads(fleet.run("events -o json").stdout)
        last = json.loads(fleet.run("events -o json --limit 2").stdout)
        mine = json.loads(fleet.run("events -o json --about node/demo-1").stdout)
        late = json.loads(fleet.run("events -o json --since 30s").stdout)

    numbers = [entry["number"] for entry in every]
    assert numbers == sorted(numbers)
    assert last == every[-2:]
    assert {entry["event"]["about"] for entry in mine} == {"node/demo-1"}
    assert 0 < len(late) < len(every)


def test_since_requires_a_time_zone() -> None:
    with running_fleet() as fleet:
        with_two_nodes(fleet)
        every = fleet.run("events --since 2026-01-01T00:00:00Z -o json")
        assert len(json.loads(every.stdout)) > 5
        assert fleet.run("events --since 2026-01-01T00:00:00").exit_code == 2
        assert fleet.run("events --since soon").exit_code == 2
        assert fleet.run("events --about demo").exit_code == 2


def test_why_needs_no_kind_for_a_unique_name() -> None:
    with running_fleet() as fleet:
        with_two_nodes(fleet)
        story = json.loads(fleet.run("why demo-0 -o json").stdout)
        assert story["about"] == "node/demo-0"
        assert fleet.run("why pool demo").stdout.startswith("pool demo is ")
        assert fleet.run("why pool/demo").exit_code == 0
        assert fleet.run("why demo").stdout.startswith("pool demo is ")


def test_why_requires_the_kind_for_an_ambiguous_name() -> None:
    with running_fleet() as fleet:
        fleet.run("up --gpus 8 --type h100 --name a")
        fleet.run("up --gpus 8 --type h100 --name a-0")
        fleet.wait(1)
        result = fleet.run("why a-0")

    assert result.exit_code == 2
    assert "a-0 is a node and a pool; pass the kind, such as: navarch why node a-0" in result.stderr


def test_why_of_an_unknown_name_is_not_found_and_of_an_unknown_kind_is_bad_usage() -> None:
    with running_fleet() as fleet:
        assert fleet.run("why nope").exit_code == 3
        assert fleet.run("why node nope").exit_code == 3
        assert fleet.run("why planet mars").exit_code == 2
        assert fleet.run("why a b c").exit_code == 2


def test_sim_inject_requires_a_fault() -> None:
    with running_fleet() as fleet:
        with_two_nodes(fleet)
        assert fleet.run("sim inject demo-0").exit_code == 2
        assert fleet.run("sim inject demo-0 --xid 79 --check a").exit_code == 2
        assert fleet.run("sim inject nope --xid 79").exit_code == 3
        injected = json.loads(fleet.run("sim inject demo-0 --xid 31 --gpu 3 -o json").stdout)
        assert injected["reason"].startswith("XID 31 on GPU 3: a kernel touched memory")
        assert injected["fatal"] is False
        hot = fleet.run(["sim", "inject", "demo-0", "--check", "thermal", "--health", "degraded"])
        assert hot.stdout.startswith("Node demo-0 will report thermal degraded\n")
        fleet.wait(40)
        assert "Degraded" in fleet.run("list").stdout
        fleet.run("sim inject demo-0 --check thermal --clear")
        fleet.wait(40)
        assert "thermal" not in fleet.run("get demo-0").stdout


class Brief:
    """A fleet that ends its watch after two changes, like a stopped server."""

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


def brief(fleet: FleetCli) -> Cli:
    assert fleet.world.control is not None
    api: FleetApi = Brief(fleet.world.control.fleet)  # type: ignore[assignment]
    return make_cli(api, runner=fleet.runner)


POOL = "pool create w --provider sim --type h100-8x --min 0 --max 3"


def test_watch_prints_again_on_a_change() -> None:
    with running_fleet() as fleet:
        fleet.run(POOL)
        result = brief(fleet).run("pool list --watch")

    assert result.exit_code == 0, result.output
    tables = result.stdout.split("\n\n")
    assert "0/0" in tables[0]
    assert "0/2" in tables[1]


def test_watch_with_json_output_writes_json_lines() -> None:
    with running_fleet() as fleet:
        fleet.run(POOL)
        result = brief(fleet).run("pool list --watch -o json")
        yaml = brief(fleet).run("pool list --watch -o yaml")

    sizes = [json.loads(line)[0]["size"] for line in result.stdout.splitlines() if line]
    assert sizes[0] == 0
    assert sizes[-1] == 2
    assert yaml.exit_code == 2


def test_follow_continues_after_the_last_past_event() -> None:
    with running_fleet() as fleet:
        fleet.run(POOL)
        result = brief(fleet).run("events --follow -o json")

    kinds = [json.loads(line)["event"]["kind"] for line in result.stdout.splitlines()]
    assert kinds[:2] == ["pool.created", "pool.scaled"]
    assert len(kinds) == len(set(result.stdout.splitlines())), "an event was printed twice"


class Restarting(Brief):
    """A fleet with a server that is unreachable for the first watch."""

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
    with running_fleet() as fleet:
        assert fleet.world.control is not None
        restarting = Restarting(fleet.world.control.fleet)
        api: FleetApi = restarting  # type: ignore[assignment]
        result = make_cli(api, runner=fleet.runner).run(
            "up --gpus 8 --type h100 --name demo --wait"
        )

    assert result.exit_code == 0, result.output
    assert restarting.absences < 0


def test_a_watch_that_loses_its_server_exits_as_unreachable() -> None:
    with running_fleet() as fleet:
        assert fleet.world.control is not None
        api: FleetApi = Restarting(fleet.world.control.fleet)  # type: ignore[assignment]
        result = make_cli(api, runner=fleet.runner).run("status --watch")

    assert result.exit_code == 5
    assert "the server hung up" in result.stderr
