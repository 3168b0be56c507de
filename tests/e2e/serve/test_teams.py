"""Two teams on one server: neither sees or changes anything of the other, on any door."""

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import msgspec
import pytest
from tests.support.fleet_process import FleetProcess

from navarch.client.connect import FleetClient, connect_fleet
from navarch.client.http import HttpFleetClient
from navarch.core.errors import NavarchError, PermissionDeniedError
from navarch.core.health import CheckResult, Health
from navarch.core.ids import JobName, NodeId, PoolName
from navarch.core.node import NodeStatus
from navarch.core.recovery import CommandKind
from navarch.ports.alerts import SilenceRequest
from navarch.ports.api import Capacity, CostBy, JobRequest, Query

ROOT = "the-operators-token-of-this-test"
CONFIG = """
server:
  heartbeat_interval: 1s
  health_check_interval: 1s
providers:
  fake: {type: fake, boot_min: 100ms, boot_max: 300ms}
pools:
  alpha-pool:
    {provider: fake, instance_type: h100-8x, min_nodes: 1, max_nodes: 4, labels: {team: alpha}}
  zebra-pool:
    {provider: fake, instance_type: h100-8x, min_nodes: 2, max_nodes: 4, labels: {team: zebra}}
budgets:
  - {of: team, name: zebra, limit_per_month: 100000}
  - {of: team, name: alpha, limit_per_month: 100000}
"""
ZEBRA = NodeId("zebra-pool-0")


class TwoTeams:
    """A server with the pools of two teams, and an operator of one of them."""

    def __init__(self, folder: Path) -> None:
        self.server = FleetProcess(folder, token=ROOT, config=CONFIG)
        self.server.start()
        self.server.until(self._all_ready)
        made = self.server.navarch(
            *("token", "create", "alpha-op", "--role", "operator", "--team", "alpha")
        )
        assert made.returncode == 0, made.stderr
        self.alpha = made.stdout.strip()
        asyncio.run(self._populate())
        self.server.until(self._incident_is_open)
        self.markers = self._secrets_of_zebra()

    def _all_ready(self) -> bool:
        async def ready(api: FleetClient) -> int:
            return (await api.list_nodes(Query(status=NodeStatus.ACTIVE))).total

        return self.server.ask(ready) == 3

    def _incident_is_open(self) -> bool:
        async def incidents(api: FleetClient) -> int:
            return len(await api.list_incidents())

        return self.server.ask(incidents) > 0

    async def _populate(self) -> None:
        """Give the other team an incident, a command, a job, a silence and a reason."""
        root = connect_fleet(self.server.url, ROOT, 10.0)
        assert isinstance(root, HttpFleetClient)
        await root.issue(ZEBRA, CommandKind.RUN_DIAGNOSTIC)
        await root.submit_job(JobRequest(name=JobName("zebra-job"), pool=PoolName("zebra-pool")))
        await root.silence(
            SilenceRequest(author="z", seconds=600, reason="z", team="zebra", cause="*")
        )
        await root.cordon(NodeId("zebra-pool-1"), reason="zebra reason")
        bad = CheckResult(check="xid/79/0", health=Health.UNHEALTHY, reason="zebra XID 79")
        await root.inject(ZEBRA, bad)
        await root.close()

    def _secrets_of_zebra(self) -> list[str]:
        """Return what must not occur in any reply to the other team."""
        status, body = self.call("GET", "/v1/nodes?pool=zebra-pool", ROOT)
        assert status == 200
        nodes = json.loads(body)["items"]
        assert len(nodes) >= 2
        found = {"zebra"}
        for node in nodes:
            found |= {str(node["instance"]), str(node["private_address"])}
            _, detail = self.call("GET", f"/v1/nodes/{node['id']}", ROOT)
            found |= set(re.findall(r"GPU-[0-9a-f-]+", detail))
        _, incidents = self.call("GET", "/v1/incidents", ROOT)
        found |= {each["id"] for each in json.loads(incidents)["items"]}
        return sorted(found - {"", "None"})

    def call(self, method: str, path: str, token: str, body: object = None) -> tuple[int, str]:
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.server.url + path, data, headers, method=method)
        try:
            with urlopen(request, timeout=20) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()

    def leaks(self, text: str) -> list[str]:
        return [marker for marker in self.markers if marker in text]


@pytest.fixture(scope="module")
def teams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoTeams]:
    found = TwoTeams(tmp_path_factory.mktemp("teams"))
    yield found
    found.server.stop()


LISTS = (
    "/v1/status",
    "/v1/nodes?include_gone=true",
    "/v1/instances?include_gone=true",
    "/v1/pools",
    "/v1/incidents",
    "/v1/events?limit=1000",
    "/v1/cost",
    "/v1/cost?by=team",
    "/v1/cost?by=provider",
    "/v1/offers",
    "/v1/held",
    "/v1/recoveries",
    "/v1/fleet-health",
    "/v1/alerts?ended=true",
    "/v1/alerts/silences?expired=true",
    "/v1/jobs?over=true",
    "/v1/xids/79",
    "/v1/whoami",
)


@pytest.mark.parametrize("path", LISTS)
def test_no_list_contains_anything_of_another_team(teams: TwoTeams, path: str) -> None:
    status, everything = teams.call("GET", path, ROOT)
    assert status == 200, everything
    status, own = teams.call("GET", path, teams.alpha)
    assert status == 200, own
    assert teams.leaks(own) == []
    if "alpha-pool" in everything:
        assert "alpha" in own, "the team must see its own part"


def test_costs_of_a_team_are_the_same_as_in_the_report_of_everything(teams: TwoTeams) -> None:
    _, everything = teams.call("GET", "/v1/cost", ROOT)
    _, own = teams.call("GET", "/v1/cost", teams.alpha)
    wanted = [x for x in json.loads(everything)["lines"] if x["name"] == "alpha-pool"]
    (line,) = json.loads(own)["lines"]
    assert line["machines"] == wanted[0]["machines"] == 1
    assert json.loads(own)["total"]["machines"] == 1
    assert [x["name"] for x in json.loads(own)["budgets"]] == ["team/alpha"]


def test_what_a_team_reads_by_name_does_not_exist_for_another(teams: TwoTeams) -> None:
    _, body = teams.call("GET", "/v1/nodes/zebra-pool-0", ROOT)
    detail = json.loads(body)
    instance, command = detail["node"]["instance"], detail["commands"][0]["id"]
    _, body = teams.call("GET", "/v1/incidents", ROOT)
    names = {
        "/v1/nodes/{}": "zebra-pool-0",
        "/v1/instances/{}": instance,
        "/v1/pools/{}": "zebra-pool",
        "/v1/commands/{}": command,
        "/v1/why/node/{}": "zebra-pool-0",
        "/v1/why/pool/{}": "zebra-pool",
        "/v1/why/launch/{}": "zebra-pool-0",
        "/v1/why/command/{}": command,
        "/v1/why/job/{}": "zebra-job",
        "/v1/jobs/{}": "zebra-job",
        "/v1/jobs/{}/why": "zebra-job",
        "/v1/nodes/{}/evidence": "zebra-pool-0",
        "/v1/nodes/{}/evidence/x": "zebra-pool-0",
        "/v1/nodes/{}/bringup": "zebra-pool-0",
        "/v1/nodes/{}/login": "zebra-pool-0",
    }
    for path, name in names.items():
        status, body = teams.call("GET", path.format(name), teams.alpha)
        missing, other = teams.call("GET", path.format("never-was"), teams.alpha)
        assert (status, missing) == (404, 404), (path, body)
        assert body.replace(name, "*") == other.replace("never-was", "*"), path
    status, body = teams.call("GET", "/v1/events?about=node/zebra-pool-0", teams.alpha)
    assert (status, json.loads(body)) == (200, {"items": []})


def test_no_change_of_a_team_reaches_another(teams: TwoTeams) -> None:
    reason = {"reason": "mischief"}
    pool = json.loads(teams.call("GET", "/v1/pools/zebra-pool", ROOT)[1])["spec"]
    stolen = {**pool, "labels": {"team": "alpha"}}
    given_away = json.loads(teams.call("GET", "/v1/pools/alpha-pool", ROOT)[1])["spec"]
    given_away["labels"] = {"team": "zebra"}
    _, body = teams.call("GET", "/v1/alerts/silences", ROOT)
    silence = json.loads(body)["items"][0]["id"]
    attempts: list[tuple[str, str, object, int]] = [
        *(
            ("POST", f"/v1/nodes/zebra-pool-0:{verb}", reason, 404)
            for verb in ("cordon", "uncordon", "drain", "retire", "declare-healthy", "forget")
        ),
        ("POST", "/v1/nodes/zebra-pool-0/commands", {"kind": "run_diagnostic"}, 404),
        ("POST", "/v1/nodes/zebra-pool-0/join-token", {}, 404),
        ("POST", "/v1/nodes/zebra-pool-0:release", reason, 404),
        ("POST", "/v1/pools/zebra-pool:scale", {"nodes": 4, "reason": "x"}, 404),
        ("PUT", "/v1/pools/zebra-pool?reason=x", stolen, 403),
        ("PUT", "/v1/pools/alpha-pool?reason=x", given_away, 403),
        ("DELETE", "/v1/pools/zebra-pool?reason=x", None, 404),
        ("POST", "/v1/jobs/zebra-job:cancel", reason, 404),
        ("POST", "/v1/jobs", {"name": "zebra-job", "pool": "alpha-pool"}, 403),
        ("POST", "/v1/jobs", {"name": "roaming"}, 403),
        ("POST", "/v1/jobs", {"name": "intruder", "pool": "zebra-pool"}, 400),
        ("POST", f"/v1/alerts/silences/{silence}:end", {"author": "x"}, 404),
        (
            "POST",
            "/v1/alerts/silences",
            {"author": "x", "seconds": 60, "reason": "x", "cause": "*"},
            403,
        ),
        (
            "POST",
            "/v1/sim/inject",
            {"node": "zebra-pool-0", "result": {"check": "c", "health": "unhealthy"}},
            404,
        ),
        ("POST", "/v1/tokens", {"name": "x", "grant": {"role": "admin"}, "expires_in": None}, 403),
        ("POST", "/v1/alerts/channels/log:test", {"author": "x"}, 403),
        ("GET", "/v1/alerts/channels", None, 403),
        ("GET", "/v1/alerts/deliveries", None, 403),
    ]
    before = _journal_of_zebra(teams)
    for method, path, sent, wanted in attempts:
        status, answer = teams.call(method, path, teams.alpha, sent)
        assert status == wanted, (method, path, status, answer)
    assert [x for x in _journal_of_zebra(teams) if x not in before] == []


def _journal_of_zebra(teams: TwoTeams) -> list[str]:
    """Return the events that somebody caused by hand."""
    _, body = teams.call("GET", "/v1/events?limit=1000", ROOT)
    return [
        json.dumps(each)
        for each in json.loads(body)["items"]
        if each["event"]["facts"].get("by") == "hand" and "zebra" in json.dumps(each)
    ]


def test_an_operator_of_a_team_creates_pools_for_it_and_is_named_in_the_journal(
    teams: TwoTeams,
) -> None:
    async def story() -> None:
        alpha = connect_fleet(teams.server.url, teams.alpha, 10.0)
        made = await alpha.up(Capacity(name=PoolName("alpha-new"), gpus=8, gpu_type="h100"))
        assert made.spec.labels["team"] == "alpha"
        events = await alpha.events(limit=1000)
        created = [x for x in events if x.event.kind == "pool.created"]
        assert created[-1].event.facts["caller"] == "token:alpha-op"
        await alpha.delete_pool(PoolName("alpha-new"), reason="done")
        await alpha.close()

    asyncio.run(story())


def test_neither_grpc_nor_a_watch_shows_anything_of_another_team(teams: TwoTeams) -> None:
    async def watched(url: str, token: str) -> str:
        client, seen = connect_fleet(url, token, 10.0), b""
        async with asyncio.timeout(20):
            async for update in client.watch(after_revision=0):
                seen += msgspec.json.encode(update)
                if update.revision >= (await client.status()).revision:
                    break
        await client.close()
        return seen.decode()

    async def read(url: str) -> str:
        client, seen = connect_fleet(url, teams.alpha, 10.0), b""
        for call in (
            client.status(),
            client.list_nodes(Query(include_gone=True)),
            client.list_instances(Query(include_gone=True)),
            client.list_pools(),
            client.list_incidents(limit=100),
            client.events(limit=1000),
            client.cost(CostBy.TEAM),
        ):
            seen += msgspec.json.encode(await call)
        with pytest.raises(NavarchError, match="not found"):
            await client.cordon(ZEBRA, reason="mischief")
        own = (await client.get_pool(PoolName("alpha-pool"))).spec
        given_away = replace(own, labels={"team": "zebra"})
        with pytest.raises(PermissionDeniedError):
            await client.put_pool(given_away, reason="mischief")
        await client.close()
        return seen.decode()

    grpc = f"grpc://127.0.0.1:{teams.server.grpc_port}"
    for url in (teams.server.url, grpc):
        everything = asyncio.run(watched(url, ROOT))
        assert teams.leaks(everything)
        own = asyncio.run(watched(url, teams.alpha))
        assert "alpha-pool-0" in own
        assert teams.leaks(own) == []
        assert teams.leaks(asyncio.run(read(url))) == []


def test_connect_shows_a_team_its_own_nodes_only(teams: TwoTeams) -> None:
    path = "/navarch.ControlPlaneService/"
    for call in ("ListNodes", "ListInstances"):
        status, body = teams.call("POST", path + call, teams.alpha, {})
        assert status == 200
        assert "alpha-pool-0" in body
        assert teams.leaks(body) == []
    status, _ = teams.call("POST", path + "GetNode", teams.alpha, {"nodeId": "zebra-pool-0"})
    assert status == 404
    order = {"nodeId": "zebra-pool-0", "commandType": "NODE_COMMAND_TYPE_CORDON"}
    status, _ = teams.call("POST", path + "IssueCommand", teams.alpha, order)
    assert status == 404
