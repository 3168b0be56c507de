"""Leases: which machine is lent to whom, written down before the machine hears of it."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote

import msgspec

from navarch.core.errors import TransientError
from navarch.core.ids import InstanceId, Token


class LeaseState(StrEnum):
    """How far the lending of a machine has come."""

    CLAIMING = "claiming"
    """Ours on paper. The machine may not know yet."""
    DOUBTFUL = "doubtful"
    """The machine was told and did not answer: it may have been claimed, or not."""
    LENT = "lent"
    CLEANING = "cleaning"
    """Given back, and not clean yet: nobody else may have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One machine, lent once."""

    instance: InstanceId
    host: str
    token: Token
    state: LeaseState
    since: datetime
    instance_type: str
    region: str = ""
    zone: str = ""
    group: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


class FolderLeases:
    """A file for each machine that is lent.

    A file is made so that it either is ours, whole, or somebody else's: several processes that
    share the folder never lend one machine twice. Calls block, and raise TransientError.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def all(self) -> Sequence[Lease]:
        """Return every lease, by the machine's name."""
        try:
            files = sorted(self._folder.glob("*.json"))
            found = [self._read(file) for file in files]
        except OSError as error:
            raise TransientError(f"{self._folder}: {error}") from error
        return [lease for lease in found if lease is not None]

    def of(self, host: str) -> Lease | None:
        """Return the lease of a machine, if it is lent."""
        try:
            return self._read(self._file(host))
        except OSError as error:
            raise TransientError(f"{self._file(host)}: {error}") from error

    def take(self, lease: Lease) -> bool:
        """Write a lease down, unless its machine is lent already; return whether it is ours."""
        file = self._file(lease.host)
        beside = file.with_name(f".{file.name}.{os.getpid()}.{quote(lease.token, safe='')}")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._write(beside, lease)
            try:
                # A link is made, or is not, in one step; and what it shows is complete.
                os.link(beside, file)
            except FileExistsError:
                return False
            finally:
                beside.unlink(missing_ok=True)
            self._sync()
        except OSError as error:
            raise TransientError(f"{file}: {error}") from error
        return True

    def change(self, lease: Lease) -> None:
        """Write down how far the lending has come."""
        file = self._file(lease.host)
        beside = file.with_name(f".{file.name}.{os.getpid()}.new")
        try:
            self._write(beside, lease)
            beside.replace(file)
            self._sync()
        except OSError as error:
            raise TransientError(f"{file}: {error}") from error

    def drop(self, lease: Lease) -> None:
        """Let go of a machine, if it is still lent under this lease."""
        try:
            known = self._read(self._file(lease.host))
            if known is not None and known.token == lease.token:
                self._file(lease.host).unlink(missing_ok=True)
                self._sync()
        except OSError as error:
            raise TransientError(f"{self._file(lease.host)}: {error}") from error

    def _read(self, file: Path) -> Lease | None:
        try:
            return msgspec.json.decode(file.read_bytes(), type=Lease)
        except FileNotFoundError:
            return None
        except (msgspec.DecodeError, json.JSONDecodeError) as error:
            # Not knowing to whom a machine is lent is no reason to lend it again.
            raise TransientError(f"{file} is damaged: {error}; mend it or remove it") from error

    def _write(self, file: Path, lease: Lease) -> None:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as writing:
            writing.write(msgspec.json.encode(lease))
            writing.flush()
            os.fsync(writing.fileno())

    def _sync(self) -> None:
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _file(self, host: str) -> Path:
        return self._folder / f"h{quote(host, safe='')}.json"
