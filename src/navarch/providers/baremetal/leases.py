"""Leases: which launch has which machine, stored before the machine is contacted."""

import contextlib
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote

import msgspec

from navarch.core.errors import TransientError
from navarch.core.ids import InstanceId, Token
from navarch.ports.bmc import Bmc
from navarch.ports.shell import Login


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One machine of the inventory."""

    name: str
    address: str
    instance_type: str
    host_key: str
    """Its pinned public key. Nothing is sent to a machine that cannot prove to hold it."""
    private_address: str = ""
    region: str = ""
    zone: str = ""
    block: str = ""
    """Machines of one block are connected at full bandwidth."""
    rack: str = ""
    gpus: int = 8
    gpu_type: str = ""
    ssh_user: str = "root"
    ssh_port: int = 22
    ssh_key_file: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    bmc: Bmc | None = None
    """Its management controller, if it is known."""

    @property
    def login(self) -> Login:
        """The SSH login."""
        return Login(
            address=self.address,
            port=self.ssh_port,
            user=self.ssh_user,
            key_file=self.ssh_key_file,
            host_key=self.host_key,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Every machine, by name."""

    hosts: Mapping[str, Host]

    def fitting(self, instance_type: str, region: str, zone: str) -> list[Host]:
        """Return the machines of a type in a region and zone, in the order of the inventory."""
        return [
            host
            for host in self.hosts.values()
            if host.instance_type == instance_type
            and (not region or not host.region or host.region == region)
            and (not zone or not host.zone or host.zone == zone)
        ]


CLAIM = "/var/lib/navarch/claim"
TAKEN = 73
"""The exit code of a command on a machine that has another owner."""


def claim_command(owner: str, *, path: str = CLAIM) -> str:
    """Return the command that claims the machine for `owner`. It is idempotent."""
    parent = path.rpartition("/")[0] or "."
    folder, file, mine = (shlex.quote(word) for word in (parent, path, owner))
    return (
        f"mkdir -p {folder} && "
        f"( ( set -C; printf '%s\\n' {mine} > {file} ) 2>/dev/null "
        f'|| [ "$(cat {file})" = {mine} ] '
        f"|| {{ cat {file}; exit {TAKEN}; }} )"
    )


def release_command(owner: str, *, path: str = CLAIM) -> str:
    """Return the command that removes the claim, if it is `owner`'s."""
    file, mine = shlex.quote(path), shlex.quote(owner)
    return f'[ ! -e {file} ] || [ "$(cat {file})" != {mine} ] || rm -f {file}'


def holds_command(owner: str, *, path: str = CLAIM) -> str:
    """Return the command that succeeds if the claim is `owner`'s or missing."""
    file, mine = shlex.quote(path), shlex.quote(owner)
    return f'[ ! -e {file} ] || [ "$(cat {file})" = {mine} ] || {{ cat {file}; exit {TAKEN}; }}'


def owns_command(owner: str, *, path: str = CLAIM) -> str:
    """Return the command that succeeds if the claim is `owner`'s, and not if it is missing."""
    file, mine = shlex.quote(path), shlex.quote(owner)
    return f'[ -e {file} ] && [ "$(cat {file})" = {mine} ]'


class LeaseState(StrEnum):
    """The progress of a lease."""

    CLAIMING = "claiming"
    """The lease is stored. The machine may not be claimed yet."""
    DOUBTFUL = "doubtful"
    """The claim was sent without a response: the machine may be claimed or not."""
    LENT = "lent"
    CLEANING = "cleaning"
    """The machine is returned but not clean yet, and cannot be leased again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One machine, leased once."""

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
    """A folder with one file for each leased machine.

    Files are created atomically and complete, so processes that share the folder never lease one
    machine twice. Calls block, and raise TransientError.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def all(self) -> Sequence[Lease]:
        """Return every lease, in the order of machine names."""
        with _explained(self._folder):
            found = [self._read(file) for file in sorted(self._folder.glob("*.json"))]
        return [lease for lease in found if lease is not None]

    def take(self, lease: Lease) -> bool:
        """Store a lease and return True, or return False if its machine is leased already."""
        file = self._file(lease.host)
        beside = file.with_name(f".{file.name}.{os.getpid()}.{quote(lease.token, safe='')}")
        with _explained(file):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._write(beside, lease)
            try:
                # Linking is atomic, and fails if the file exists; the content is complete.
                os.link(beside, file)
            except FileExistsError:
                return False
            finally:
                beside.unlink(missing_ok=True)
            self._sync()
        return True

    def change(self, lease: Lease) -> None:
        """Store the new state of a lease."""
        file = self._file(lease.host)
        beside = file.with_name(f".{file.name}.{os.getpid()}.new")
        with _explained(file):
            self._write(beside, lease)
            beside.replace(file)
            self._sync()

    def drop(self, lease: Lease) -> None:
        """Remove a lease, if its machine is still leased under it."""
        file = self._file(lease.host)
        with _explained(file):
            known = self._read(file)
            if known is not None and known.token == lease.token:
                file.unlink(missing_ok=True)
                self._sync()

    def _read(self, file: Path) -> Lease | None:
        try:
            return msgspec.json.decode(file.read_bytes(), type=Lease)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            # The machine may be in use, so it must not be leased again.
            raise TransientError(f"{file} is damaged: {error}; repair or remove it") from error

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


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TransientError(f"{path}: {error}") from error
