"""A real Prometheus. `NAVARCH_PROMETHEUS` names the program, if it is not on the path."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.support.fleet_process import free_port
from tests.support.metrics_page import ROOT

PROMETHEUS = os.environ.get("NAVARCH_PROMETHEUS") or shutil.which("prometheus")


class Prometheus:
    """A real Prometheus that scrapes one server every second, with the alert rules."""

    def __init__(self, home: Path, target: str) -> None:
        assert PROMETHEUS is not None
        self.url = f"http://127.0.0.1:{free_port()}"
        shipped = ROOT / "deploy" / "prometheus"
        config = (shipped / "prometheus.yml").read_text("utf-8")
        config = config.replace("localhost:50051", target).replace("15s", "1s")
        (home / "prometheus.yml").write_text(config)
        shutil.copy(shipped / "rules.yml", home)
        command = [
            PROMETHEUS,
            f"--config.file={home / 'prometheus.yml'}",
            f"--storage.tsdb.path={home / 'data'}",
            f"--web.listen-address={self.url.removeprefix('http://')}",
        ]
        with (home / "log").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    @classmethod
    @contextmanager
    def started(cls, home: Path, target: str) -> "Iterator[Prometheus]":
        """Run Prometheus until the end of the block."""
        home.mkdir()
        prometheus = cls(home, target)
        try:
            yield prometheus
        finally:
            prometheus.process.terminate()
            prometheus.process.wait(timeout=20)

    def get(self, path: str) -> Any:
        with urlopen(f"{self.url}/api/v1/{path}") as reply:
            return json.load(reply)["data"]

    def value(self, expression: str) -> float | None:
        """Return the value of a query that has one."""
        found = self.get(f"query?{urlencode({'query': expression})}")["result"]
        return float(found[0]["value"][1]) if found else None

    def is_scraping(self) -> bool:
        try:
            targets = self.get("targets")["activeTargets"]
        except OSError:
            return False
        return [each["health"] for each in targets] == ["up"]
