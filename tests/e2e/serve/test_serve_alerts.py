"""Alerts of a real server: signed, delivered across a kill, and ended."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook
from tests.support.fleet_process import FleetProcess

from navarch.core.health import CheckResult, Health
from navarch.core.ids import NodeId
from navarch.ports.alerts import AlertApi
from navarch.testing.loopback_server import HttpRequest, HttpResponse, Wire, serve

KEY = "whsec_c2VjcmV0LW9mLW5vLXNlcnZpY2U="

CONFIG = """
server: {heartbeat_interval: 1s, health_check_interval: 1s}
providers:
  fake: {type: fake, boot_min: 100ms, boot_max: 500ms, bad_boot_share: 0}
pools:
  training:
    provider: fake
    instance_type: h100-8x
    min_nodes: 2
    max_nodes: 4
    health: {auto_replace: false}
alerts:
  group_wait: 4s  # the node and its incident are judged in several commits
  group_interval: 100ms
  channels:
    bridge: {type: webhook, url: "URL/alerts", secret: "${BRIDGE_SECRET}", timeout: 2s}
"""


class Bridge:
    """A receiver that verifies signatures."""

    def __init__(self) -> None:
        self.wire = Wire()

    def answer(self, request: HttpRequest) -> HttpResponse:
        Webhook(KEY).verify(request.body, request.headers)
        return HttpResponse(200, b"thanks")

    def received(self, action: str) -> list[str]:
        """Return the ids of all messages about the node, repetitions included."""
        bodies = [json.loads(request.body) for request in self.wire.requests]
        mine = [x for x in bodies if x["group"] == "node-fault/training"]
        return [x["id"] for x in mine if x["action"] == action]


@pytest.fixture
def bridge() -> Iterator[tuple[Bridge, str]]:
    made = Bridge()
    with serve(made.answer, made.wire) as url:
        yield made, url


@pytest.mark.long  # two starts of a server, and the pauses of a failed delivery
def test_an_alert_survives_a_kill_during_its_delivery(
    tmp_path: Path, bridge: tuple[Bridge, str]
) -> None:
    receiver, url = bridge
    server = FleetProcess(
        tmp_path, config=CONFIG.replace("URL", url), environ={"BRIDGE_SECRET": KEY}
    )
    server.start()
    try:
        server.until(lambda: serving(server) == 2)
        receiver.wire.fault = lambda _: "lose answer"
        fault = CheckResult(check="fabric", health=Health.UNHEALTHY, reason="link 3", fatal=True)
        server.ask(lambda api: api.inject(NodeId("training-0"), fault))
        server.until(lambda: len(receiver.received("trigger")) == 1)
        server.kill()
        receiver.wire.fault = lambda _: None
        server.start()
        server.until(lambda: delivered(server))
        ids = receiver.received("trigger")
        assert len(ids) > 1, "it is repeated, because the answer was lost"
        assert len(set(ids)) == 1, "and the receiver can recognise that"
        assert KEY not in server.log.read_text()
        assert "link 3" in server.log.read_text(), "the log receives every alert"
    finally:
        server.kill()


def serving(server: FleetProcess) -> int:
    (pool,) = server.ask(lambda api: api.list_pools())
    return pool.serving


def delivered(server: FleetProcess) -> bool:
    def asked(api: object) -> AlertApi:
        assert isinstance(api, AlertApi)
        return api

    views = server.ask(lambda api: asked(api).list_alerts())
    return any("bridge" in x.channels and x.alert.cause == "node-fault" for x in views)
