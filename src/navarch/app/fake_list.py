"""The machines of a simulated cloud in a file, which outlives the process that runs them."""

import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from navarch.core.ids import InstanceId
from navarch.providers.simulated import Machine
from navarch.stores.evidence import read_whole, write_whole

KEPT = timedelta(days=1)
"""How long a machine is listed after its end."""


class MachineList:
    """One line for each change of a machine; the last one counts.

    A change costs the same however many machines there are. It need not survive a power cut, only
    a kill of the process.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file = directory / "machines.jsonl"
        self._earlier = directory / "machines.json"
        """The file of version 0.1: a list."""

    def read(self) -> list[Machine]:
        """Return every machine in its last state."""
        saved = read_whole(self._file)
        if saved is None:
            return msgspec.json.decode(read_whole(self._earlier) or b"[]", type=list[Machine])
        found: dict[InstanceId, Machine] = {}
        for line in saved.splitlines():
            # A kill or a full disk cuts a line off: that call to the cloud had no answer.
            with suppress(msgspec.DecodeError):
                machine = msgspec.json.decode(line, type=Machine)
                found[machine.id] = machine
        return list(found.values())

    def begin(self, machines: Iterable[Machine], now: datetime) -> None:
        """Write the machines that are kept as the whole list. Each process does so first."""
        kept = (x for x in machines if x.ended_at is None or now < x.ended_at + KEPT)
        self._directory.mkdir(parents=True, exist_ok=True)
        write_whole(self._file, b"".join(map(_line, kept)))
        self._earlier.unlink(missing_ok=True)

    def note(self, machine: Machine) -> None:
        """Write the state of a machine."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._file, flags, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_line(machine))


def _line(machine: Machine) -> bytes:
    # The end of a line comes first: the line before may have been cut off.
    return b"\n" + msgspec.json.encode(machine)
