"""Boot scripts in a folder of their own: real shell, Python and network, without systemd."""

import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SYSTEM_PYTHON = Path(sys.base_prefix) / "bin/python3"
"""An interpreter without Navarch, as on a new machine."""


class Machine:
    """A new machine: folders instead of `/etc` and `/opt`, and stand-ins for systemd and sleep."""

    def __init__(self, folder: Path, *, python: str = "") -> None:
        """`python` is the body of a stand-in for python3; the system's if empty."""
        self.root, self.tools = folder / "root", folder / "tools"
        for each in (self.root / "etc/systemd/system", self.root / "opt", self.tools):
            each.mkdir(parents=True)
        # Only the tools of a bare system: no other Python.
        self.path = f"{self.tools}:/usr/sbin:/usr/bin:/sbin:/bin"
        self.calls = folder / "calls.log"
        self.stand_in("systemctl")
        self.stand_in("sleep")
        if python:
            self.stand_in("python3", python)
        else:
            (self.tools / "python3").symlink_to(SYSTEM_PYTHON)

    def stand_in(self, name: str, body: str = "") -> None:
        """Replace a program by one that writes its arguments down."""
        file = self.tools / name
        file.write_text(f'#!/bin/sh\necho "{name} $*" >> {self.calls}\n{body}\n')
        file.chmod(0o755)

    def boot(self, script: str, *, shell: str = "sh") -> "subprocess.CompletedProcess[str]":
        """Run user data."""
        text = re.sub(r"(?<![\w/])/(etc|opt)/", rf"{self.root}/\1/", script)
        return subprocess.run(
            [shell, "-c", text],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={"PATH": self.path},
        )

    @property
    def agent(self) -> Path:
        """The installed agent."""
        return self.root / "opt/navarch/bin/navarch"

    @property
    def environment(self) -> Mapping[str, str]:
        """What systemd would pass to the agent."""
        lines = (self.root / "etc/navarch/agent.env").read_text().splitlines()
        given = dict(line.split("=", 1) for line in lines)
        values = {name: shlex.split(value)[0] for name, value in given.items()}
        values["NAVARCH_JOIN_TOKEN_FILE"] = str(self.root / "etc/navarch/join-token")
        values["STATE_DIRECTORY"] = str(self.root / "state")
        return {"PATH": os.environ["PATH"], **values}


Answer = Callable[[BaseHTTPRequestHandler, bytes], None]


def whole(request: BaseHTTPRequestHandler, content: bytes) -> None:
    request.send_response(200)
    request.send_header("Content-Length", str(len(content)))
    request.end_headers()
    request.wfile.write(content)


def truncated(request: BaseHTTPRequestHandler, content: bytes) -> None:
    """Announce the whole content, and close the connection in the middle of it."""
    request.send_response(200)
    request.send_header("Content-Length", str(len(content)))
    request.end_headers()
    request.wfile.write(content[: len(content) // 2])


def truncated_unnoticed(request: BaseHTTPRequestHandler, content: bytes) -> None:
    whole(request, content[: len(content) // 2])


def tampered(request: BaseHTTPRequestHandler, content: bytes) -> None:
    whole(request, content[:-1] + bytes([content[-1] ^ 1]))


def unavailable(request: BaseHTTPRequestHandler, _content: bytes) -> None:
    request.send_error(503)


@contextmanager
def file_server(content: bytes, *answers: Answer) -> Iterator[str]:
    """Serve `content` at every path, with these answers one after the other; the last repeats."""
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = left.pop(0) if len(left) > 1 else left[0]
            answer(self, content)

        def log_message(self, *_arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
