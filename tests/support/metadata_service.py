"""Local metadata services of AWS and Google Cloud, on loopback."""

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

AWS_TOKEN = "X-aws-ec2-metadata-token"
AWS_PATHS = "/latest/meta-data/"
GCP_PATHS = "/computeMetadata/v1/instance/"
GCP_PROJECT = "/computeMetadata/v1/project/"
GOOGLE = {"Metadata-Flavor": "Google"}


@dataclass
class MetadataService:
    """The values of a metadata service, and the requests it received."""

    values: dict[str, str] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    hangs: bool = False
    status: int = 200
    change: threading.Condition = field(default_factory=threading.Condition)
    over: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def say(self, path: str, value: object) -> None:
        """Set a value; requests that wait for a change return at once."""
        with self.change:
            self.values[path] = value if isinstance(value, str) else json.dumps(value)
            self.change.notify_all()

    def withdraw(self, path: str) -> None:
        with self.change:
            self.values.pop(path, None)
            self.change.notify_all()

    def etag(self, path: str) -> str:
        return f"{hash(self.values.get(path, '')) & 0xFFFF:x}"


class _Handler(BaseHTTPRequestHandler):
    service: MetadataService

    def do_PUT(self) -> None:
        ttl = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
        if self.path != "/latest/api/token" or not ttl.isdecimal():
            self._send(400, "")
            return
        token = f"token-{len(self.service.asked)}"
        self.service.tokens.add(token)
        self._send(200, token)

    def do_GET(self) -> None:
        self.service.asked.append(self.path)
        if self.service.hangs:
            self.service.over.wait(60)
            return
        if self.path.startswith(AWS_PATHS):
            if self.headers.get(AWS_TOKEN) not in self.service.tokens:
                self._send(401, "")
                return
            self._value(self.path.removeprefix(AWS_PATHS), {})
        elif self.headers.get("Metadata-Flavor") == "Google":
            self._follow()
        else:
            self._send(403, "")

    def _follow(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/":
            self._send(200, "computeMetadata/", GOOGLE)
            return
        key = parts.path.removeprefix(GCP_PATHS).removeprefix(GCP_PROJECT)
        query = parse_qs(parts.query)
        if query.get("wait_for_change") == ["true"]:
            last = query["last_etag"][0]
            timeout = float(query["timeout_sec"][0])
            with self.service.change:
                self.service.change.wait_for(
                    lambda: self.service.etag(key) != last or self.service.over.is_set(), timeout
                )
        self._value(key, {**GOOGLE, "ETag": self.service.etag(key)})

    def _value(self, key: str, headers: dict[str, str]) -> None:
        value = self.service.values.get(key)
        if value is None:
            self._send(404, "not found")
        else:
            self._send(self.service.status, value, headers)

    def _send(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        body = text.encode()
        self.send_response(status)
        for name, word in (headers or {}).items():
            self.send_header(name, word)
        kind = "application/json" if text.startswith(("{", "[")) else "application/text"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        """Log nothing."""


@contextlib.contextmanager
def metadata_service() -> Iterator[MetadataService]:
    """Serve metadata until the block ends."""
    service = MetadataService()
    handler = type("Handler", (_Handler,), {"service": service})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        service.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield service
        finally:
            service.over.set()
            with service.change:
                service.change.notify_all()
            server.shutdown()
            thread.join()
