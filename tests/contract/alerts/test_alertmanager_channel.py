"""The Alertmanager channel against the schema of its API, and against a real Alertmanager."""

import http.client
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.alert_services import ALERTMANAGER_ALERTS, problem
from tests.support.channel_services import CLOCK, HttpChannelContract, free_port

from navarch.core.alert import AlertAction, Severity
from navarch.core.records import evolve
from navarch.notifiers.alerts.alertmanager import FIRES_FOR, AlertmanagerChannel, render
from navarch.ports.alert_channel import AlertChannel
from navarch.sim.kernel.clock import InlineOffload
from navarch.testing.alert_channel_contract import SECRET, a_message, an_alert
from navarch.testing.loopback_server import HttpRequest, HttpResponse
from navarch.testing.worlds import NOW

TOKEN = "Bearer " + SECRET
PROGRAM = os.environ.get("NAVARCH_ALERTMANAGER") or shutil.which("prometheus-alertmanager")


class TestAlertmanagerChannel(HttpChannelContract):
    def answer(self, request: HttpRequest) -> HttpResponse:
        if (request.method, request.path) != ("POST", "/api/v2/alerts"):
            return HttpResponse(404, b"")
        if request.headers.get("authorization") != TOKEN:
            return HttpResponse(401, b"")
        wrong = problem(request.body, ALERTMANAGER_ALERTS)
        return HttpResponse(200, b"") if wrong is None else HttpResponse(400, wrong.encode())

    def channel(self, *, timeout: timedelta = timedelta(seconds=10)) -> AlertChannel:
        headers = {"Authorization": TOKEN}
        return AlertmanagerChannel(
            CLOCK, InlineOffload(), name="am", url=self.url + "/", headers=headers, timeout=timeout
        )

    def received(self) -> list[str]:
        return [f"{x.body.decode()} {len(json.loads(x.body))}" for x in self.accepted]


def test_an_alert_fires_until_it_is_due_again_and_ends_when_it_has_ended() -> None:
    (fires,) = render(a_message(), NOW)
    assert fires["endsAt"] == NOW + FIRES_FOR
    test = a_message(action=AlertAction.TEST)
    (over,) = render(test, NOW)
    assert over["endsAt"] == NOW


def test_an_escalation_ends_the_alert_with_the_lower_severity() -> None:
    worse = an_alert(severity=Severity.CRITICAL, version=2)
    found = {x["labels"]["severity"]: x["endsAt"] for x in render(a_message(worse), NOW)}  # type: ignore[index]
    assert found == {"critical": NOW + FIRES_FOR, "warning": NOW, "info": NOW}


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Run a real Alertmanager and return its port."""
    assert PROGRAM is not None
    home, port = tmp_path_factory.mktemp("alertmanager"), free_port()
    config = home / "alertmanager.yml"
    config.write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
    command = [
        PROGRAM,
        f"--config.file={config}",
        f"--storage.path={home / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _wait_for(port, process, home / "log")
        yield port
    finally:
        process.terminate()
        process.wait(timeout=20)


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        assert process.poll() is None, log.read_text()
        try:
            if forward(port, "GET", "/-/ready").status == 200:
                return
        except OSError:
            pass
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


def forward(port: int, method: str, path: str, body: bytes = b"") -> HttpResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    headers = {"Content-Type": "application/json"}
    connection.request(method, path, body=body or None, headers=headers)
    response = connection.getresponse()
    found = HttpResponse(response.status, response.read())
    connection.close()
    return found


@pytest.mark.long
@pytest.mark.skipif(PROGRAM is None, reason="no prometheus-alertmanager: install it with apt")
class TestRealAlertmanager(TestAlertmanagerChannel):
    port: int

    @pytest.fixture(autouse=True)
    def started(self, alertmanager: int) -> None:
        self.port = alertmanager

    def answer(self, request: HttpRequest) -> HttpResponse:
        if request.headers.get("authorization") != TOKEN:
            return HttpResponse(401, b"")
        return forward(self.port, request.method, request.path, request.body)

    def active(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = json.loads(
            forward(self.port, "GET", "/api/v2/alerts?active=true").body
        )
        return found

    @pytest.mark.usefixtures("service")
    def test_alertmanager_shows_what_fires_and_drops_what_has_ended(self) -> None:
        began = datetime.now(UTC)
        alert = an_alert("real-0", began_at=began, severity=Severity.WARNING)
        self.send(a_message(alert))
        assert self.labels("real-0") == ["warning"]
        worse = evolve(alert, severity=Severity.CRITICAL, version=2)
        self.send(a_message(worse))
        assert self.labels("real-0") == ["critical"]
        over = evolve(worse, resolved_at=datetime.now(UTC), version=3)
        resolved = evolve(a_message(over), action=AlertAction.RESOLVE)
        ended = evolve(over, state="resolved")  # type: ignore[arg-type]
        self.send(evolve(resolved, alerts=(ended,)))
        assert self.labels("real-0") == []

    def labels(self, node: str) -> list[str]:
        found = [x["labels"] for x in self.active()]
        return [x["severity"] for x in found if x["subject"] == f"node/{node}"]  # type: ignore[index]
