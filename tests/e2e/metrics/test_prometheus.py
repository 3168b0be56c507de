"""The Prometheus source against a real Prometheus, if one is installed.

`NAVARCH_PROMETHEUS` names the program, if it is not on the path.
"""

import asyncio
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from navarch.clock import ThreadOffload
from navarch.core.errors import MetricsError
from navarch.core.ids import PoolName
from navarch.meters.prometheus import PrometheusMeter, PrometheusQueries
from navarch.ports.autoscaler import PoolMetrics

PROMETHEUS = os.environ.get("NAVARCH_PROMETHEUS") or shutil.which("prometheus")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(PROMETHEUS is None, reason="no prometheus on the path: install it with apt"),
]

EXPOSED = b"""\
gpu_util{pool="training",gpu="0"} 40
gpu_util{pool="training",gpu="1"} 80
jobs{pool="training",state="waiting"} 3
jobs{pool="training",state="running"} 4
jobs{pool="other",state="running"} 99
"""


class Exporter(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(EXPOSED)

    def log_message(self, *_args: object) -> None:
        pass


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a server that has scraped the exporter."""
    home = tmp_path_factory.mktemp("prometheus")
    exporter = ThreadingHTTPServer(("127.0.0.1", 0), Exporter)
    threading.Thread(target=exporter.serve_forever, daemon=True).start()
    address = f"127.0.0.1:{free_port()}"
    process = _start(home, address, exporter.server_address[1])
    try:
        _wait(f"http://{address}", process)
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(timeout=20)
        exporter.shutdown()
        exporter.server_close()


def _start(home: Path, address: str, exporter: int) -> subprocess.Popen[bytes]:
    assert PROMETHEUS is not None
    config = home / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s}\n"
        "scrape_configs: [{job_name: toy, static_configs: "
        f'[{{targets: ["127.0.0.1:{exporter}"]}}]}}]\n'
    )
    command = [
        PROMETHEUS,
        f"--config.file={config}",
        f"--storage.tsdb.path={home / 'data'}",
        f"--web.listen-address={address}",
    ]
    with (home / "log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while True:
        assert process.poll() is None, "prometheus ended"
        try:
            ask(PrometheusQueries(url=url, queue_depth="sum(jobs)"))
        except MetricsError:
            assert time.monotonic() < deadline, "prometheus has scraped nothing"
            time.sleep(0.2)
        else:
            return


def ask(queries: PrometheusQueries) -> PoolMetrics:
    threads = ThreadOffload("test-prometheus")
    try:
        return asyncio.run(PrometheusMeter(threads, queries).pool_metrics(PoolName("training")))
    finally:
        threads.close()


def test_queries_return_the_metrics_of_one_pool(prometheus: str) -> None:
    found = ask(
        PrometheusQueries(
            url=prometheus + "/",
            utilization='avg(gpu_util{pool="$pool"})',
            pending_jobs='sum(jobs{pool="$pool",state="waiting"})',
            queue_depth='sum(jobs{pool="$pool"})',
            nodes_needed='ceil(sum(jobs{pool="$pool"}) / 2)',
        )
    )

    assert found == PoolMetrics(utilization=60.0, pending_jobs=3, queue_depth=7, nodes_needed=4)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ('sum(jobs{pool="nobody"})', "0 series, not one"),
        ("jobs", "3 series, not one"),
        ("sum(jobs", "parse error"),
        ("sum(jobs) / 0", "+Inf is not a valid amount"),
        ("jobs[1m]", "returns a matrix, not a number"),
    ],
)
def test_queries_without_a_number_state_the_reason(prometheus: str, query: str, words: str) -> None:
    with pytest.raises(MetricsError) as caught:
        ask(PrometheusQueries(url=prometheus, queue_depth=query))

    assert words in str(caught.value)


def test_a_query_can_treat_an_empty_result_as_zero(prometheus: str) -> None:
    query = 'sum(jobs{pool="nobody"}) or vector(0)'

    assert ask(PrometheusQueries(url=prometheus, queue_depth=query)).queue_depth == 0


def test_metrics_of_a_missing_server_are_unknown() -> None:
    with pytest.raises(MetricsError, match="prometheus: "):
        ask(PrometheusQueries(url=f"http://127.0.0.1:{free_port()}", queue_depth="up"))
