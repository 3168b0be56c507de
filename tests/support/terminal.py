"""A terminal of 80 columns with bash in it, in which tests type as a person does."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

PROMPT = "ready> "
COLUMNS, ROWS = 80, 24
PATIENCE_S = 60.0


class TypingTerminal:
    """A terminal, from the side of the person in front of it."""

    def __init__(self, end: int) -> None:
        self._end = end
        self._shown = b""
        self._seen = 0
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with suppress(OSError):
            while data := os.read(self._end, 65536):
                with self._news:
                    self._shown += data
                    self._news.notify_all()

    @property
    def shown(self) -> str:
        """Everything that the terminal has shown."""
        return self._shown.decode(errors="replace").replace("\r\n", "\n")

    def type(self, line: str) -> None:
        """Type a line."""
        os.write(self._end, f"{line}\n".encode())

    def press(self, key: str) -> None:
        """Press a key."""
        os.write(self._end, key.encode())

    def wait_for(self, text: str, *, within_s: float = PATIENCE_S) -> str:
        """Wait until `text` appears; return what the terminal showed since the last wait."""
        deadline = time.monotonic() + within_s
        with self._news:
            while (found := self._shown.find(text.encode(), self._seen)) < 0:
                left = deadline - time.monotonic()
                assert left > 0, f"no {text!r} in:\n{self.shown[-4000:]}"
                self._news.wait(left)
            before, self._seen = self._seen, found + len(text.encode())
            return self._shown[before : self._seen].decode(errors="replace").replace("\r\n", "\n")

    def run(self, line: str, *, within_s: float = PATIENCE_S) -> str:
        """Type a command; return what it prints. It has to succeed."""
        self.type(line)
        return self.finish(within_s=within_s)

    def finish(self, *, within_s: float = PATIENCE_S) -> str:
        """Wait for the end of a command, which has to succeed; return what it printed."""
        output = self.wait_for(PROMPT, within_s=within_s)
        assert self._status() == 0, output
        return output.removesuffix(PROMPT)

    def succeeds(self, line: str) -> bool:
        """Type a command; return whether it succeeds."""
        self.type(line)
        self.wait_for(PROMPT)
        return self._status() == 0

    def close(self) -> None:
        """Close the terminal, once its last process has ended."""
        self._reader.join()
        os.close(self._end)

    def _status(self) -> int:
        self.type("echo =$?=")
        found = re.search(r"^=(\d+)=$", self.wait_for(PROMPT), re.MULTILINE)
        assert found is not None, self.shown[-2000:]
        return int(found[1])


@contextmanager
def typing_terminal(environment: Mapping[str, str], folder: Path) -> Iterator[TypingTerminal]:
    """Run bash in a terminal, and end it at the end of the block."""
    end, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    shell = subprocess.Popen(
        ["setsid", "--ctty", "bash", "--norc", "--noprofile", "--noediting", "-i"],
        stdin=inner,
        stdout=inner,
        stderr=inner,
        env={**environment, "PS1": PROMPT, "TERM": "dumb"},
        cwd=folder,
    )
    os.close(inner)
    terminal = TypingTerminal(end)
    try:
        terminal.wait_for(PROMPT)
        yield terminal
    finally:
        running = os.tcgetpgrp(end)
        if running not in (0, shell.pid):
            # `navarch serve` takes the end of its terminal, SIGHUP, for a request to reload.
            with suppress(ProcessLookupError):
                os.killpg(running, signal.SIGTERM)
        shell.send_signal(signal.SIGHUP)  # Bash passes it on to what it runs.
        try:
            shell.wait(timeout=20)
        except subprocess.TimeoutExpired:
            shell.kill()
            shell.wait()
        terminal.close()
