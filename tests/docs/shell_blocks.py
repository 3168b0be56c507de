"""Commands in the documentation: what they are, what they print, and how they are run."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from doc_pages import ROOT, Block

ATTEMPTS = 60
"""How often a command is repeated until it prints what the page shows. Each takes a moment."""


@dataclass(slots=True)
class Command:
    """A command line, and the lines that a page shows below it."""

    page: str
    place: str
    line: str
    output: list[str] = field(default_factory=list)

    @property
    def label(self) -> str:
        return f"{self.page}: {self.line}"

    @property
    def is_refused(self) -> bool:
        return any(line.startswith("Error: ") for line in self.output)


def commands(block: Block) -> list[Command]:
    """Return the commands of a block, with their output if it is a `console` block."""
    found: list[Command] = []
    unfinished = ""
    for line in block.text.splitlines():
        if block.language == "console" and not unfinished and not line.startswith("$ "):
            found[-1].output.append(line)
            continue
        text = unfinished + (line.removeprefix("$ ") if not unfinished else line)
        if text.endswith("\\") or not _is_closed(text):
            unfinished = text + "\n"
        elif _words(text):
            unfinished = ""
            found.append(Command(block.page, block.place, text))
    assert not unfinished, f"{block.place} ends within a command"
    return found


def navarch_calls(command: Command) -> Iterator[list[str]]:
    """Yield the arguments of every call of `navarch` in a command line."""
    for part in re.split(r"&&|\|\||[|;]", re.sub(r"'[^']*'|\"[^\"]*\"", "''", command.line)):
        words = _words(re.sub(r"[<>]\s*\S+", "", part))
        while words and re.fullmatch(r"\w+=.*", words[0]):
            words = words[1:]
        if words and words[0].endswith("navarch"):
            yield words[1:]


@dataclass(frozen=True, slots=True)
class Terminal:
    """A shell of a reader: in a folder, with `navarch` on the path and a server that runs."""

    folder: Path
    server: str
    grpc_server: str

    def run(self, command: Command) -> None:
        """Run a command until it succeeds and prints what the page shows."""
        done, wanted = self._once(command.line), normalized("\n".join(command.output))
        for _ in range(ATTEMPTS):
            if self._is_as_shown(command, done, wanted):
                break
            done = self._once(command.line)
        assert self._is_as_shown(command, done, wanted), (
            f"{command.place}: {command.line}\nprinted, with exit code {done.returncode}:\n"
            f"{done.stdout}{done.stderr}\nbut the page shows:\n" + "\n".join(command.output)
        )

    def _is_as_shown(
        self, command: Command, done: subprocess.CompletedProcess[str], wanted: str
    ) -> bool:
        printed = normalized(done.stdout + done.stderr)
        if (done.returncode != 0) != command.is_refused:
            return False
        return all(part.strip() in printed for part in wanted.split("..."))

    def _once(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", self.translated(line)],
            cwd=self.folder,
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def translated(self, text: str) -> str:
        """Return a text with the addresses of this server in place of the default ones."""
        here = {"localhost:50051": self.server, "localhost:50052": self.grpc_server}
        for written, address in here.items():
            text = text.replace(written, address)
        return text.replace(".venv/bin/navarch", "navarch")

    def _environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("NAVARCH_")}
        return kept | {
            "NAVARCH_SERVER": f"http://{self.server}",
            "NAVARCH_AUTH_TOKEN": "",
            "XDG_CONFIG_HOME": str(self.folder / "home"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }


def normalized(text: str) -> str:
    """Return text without what differs from run to run: figures, times and line breaks."""
    text = re.sub(r"\b(inc-|nvj1\.)\S+", r"\1#", text)
    return " ".join(re.sub(r"\d[\d.,:-]*", "#", text).split())


def _is_closed(text: str) -> bool:
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return False
    return True


def _words(text: str) -> list[str]:
    return shlex.split(text, comments=True)


__all__ = ["ROOT", "Command", "Terminal", "commands", "navarch_calls", "normalized"]
