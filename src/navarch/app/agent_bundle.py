"""The agent bundle: the agent and its dependencies, as the files of this installation.

A new machine downloads it from the control plane, and checks it against the hash in its user data.
The same installation gives the same bytes. Compiled code depends on the machine's Python: the
bundle holds that of this installation, and wheels for others. A release contains wheels for every
Python of `agent-wheels.txt`, and the operator can name a folder of them. If the operator allows it,
a machine downloads the wheel that fits. The hash of each wheel is in `agent-wheels.txt`.
"""

import gzip
import hashlib
import io
import re
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, partial
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path, PurePosixPath
from sysconfig import get_config_var
from typing import NamedTuple

import navarch
from navarch.core.errors import InvalidError
from navarch.ports.clock import Clock

DEPENDENCIES = ("click", "h11", "msgspec", "structlog")
"""The distributions that the agent imports. Of these, only msgspec has compiled code."""

RELEASED = Path(__file__).parent / "wheels"
"""The wheels of a release. An installation from source has none."""

KEPT = timedelta(days=30)
"""How long the bundle of an earlier version is kept, for machines that are still booting."""

_ABI = re.compile(r"_core\.(cpython-[0-9a-z_-]+)\.so")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class AgentBundle:
    """The agent as one archive."""

    content: bytes
    abis: tuple[str, ...]
    """The Pythons for which it holds compiled code, such as `cpython-312-x86_64-linux-gnu`."""

    @cached_property
    def sha256(self) -> str:
        """The name of the bundle."""
        return hashlib.sha256(self.content).hexdigest()


class Pin(NamedTuple):
    """A wheel of compiled code that this version accepts."""

    sha256: str
    url: str


def build_bundle(
    wheels: str | None = None,
    *,
    index: bool = False,
    accepted: Mapping[str, Pin] | None = None,
    released: Path | None = None,
) -> AgentBundle:
    """Return the bundle of this installation, with the wheels of the release and of `wheels`.

    With `index`, it contains the list of wheels that a machine may download. `accepted` are the
    wheels that may be used, by the Python that they are for; those of this version if left out.
    """
    accepted = pins() if accepted is None else accepted
    members = dict(_installed())
    own = {match[1] for path in members if (match := _ABI.fullmatch(PurePosixPath(path).name))}
    given = _wheels(wheels, accepted, released or RELEASED)
    members |= {f"wheels/{abi}.whl": content for abi, content in given.items()}
    if index:
        lines = [f"{abi} {pin.sha256} {pin.url}\n" for abi, pin in sorted(accepted.items())]
        members["wheels.txt"] = "".join(lines).encode()
    return AgentBundle(content=_packed(members), abis=tuple(sorted(own | set(given))))


def supported_abis(
    wheels: str | None = None, *, index: bool = False, released: Path | None = None
) -> frozenset[str]:
    """Return the Pythons on which the agent starts from a bundle with these settings."""
    accepted = pins()
    found = set(_wheels(wheels, accepted, released or RELEASED)) | (
        set(accepted) if index else set()
    )
    return frozenset(found | {str(get_config_var("SOABI"))})


def pins() -> dict[str, Pin]:
    """Return the accepted wheels, by the Python that they are for."""
    text = files("navarch.app").joinpath("agent-wheels.txt").read_text("utf-8")
    rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {abi: Pin(sha256, url) for abi, sha256, url in rows}


def _installed() -> Iterator[tuple[str, bytes]]:
    """Yield the files of the agent and its dependencies, by their path in the bundle."""
    package = Path(navarch.__file__).parent
    for file in package.rglob("*"):
        # The wheels of a release are members of their own.
        if file.is_file() and "__pycache__" not in file.parts and RELEASED not in file.parents:
            yield f"lib/navarch/{file.relative_to(package).as_posix()}", file.read_bytes()
    for name in DEPENDENCIES:
        listed = distribution(name).files
        if not listed:
            raise InvalidError(
                f"the agent cannot be bundled: {name} is installed without a list of its files; "
                "install Navarch with pip into a virtual environment"
            )
        for each in listed:
            if _belongs(each):
                yield f"lib/{each.as_posix()}", Path(str(each.locate())).read_bytes()


def _belongs(path: PurePosixPath) -> bool:
    """Return whether a dependency's file is code or a licence: the rest differs by installation."""
    if ".." in path.parts or "__pycache__" in path.parts:
        return False
    info = path.parts[0].endswith(".dist-info")
    return not info or path.name == "METADATA" or "licen" in path.as_posix().lower()


def _wheels(wheels: str | None, accepted: Mapping[str, Pin], released: Path) -> Mapping[str, bytes]:
    """Return the wheels of the release, and of the operator's folder, by their Python."""
    found = dict(_read_wheels(released, accepted)) if released.is_dir() else {}
    return found if wheels is None else found | dict(_read_wheels(Path(wheels), accepted))


def _read_wheels(folder: Path, accepted: Mapping[str, Pin]) -> Iterator[tuple[str, bytes]]:
    """Yield the wheels of a folder by their Python, or raise InvalidError."""
    try:
        if not folder.is_dir():
            raise InvalidError(f"server.agent_wheels: {folder} is not a folder")
        for wheel in sorted(folder.glob("*.whl")):
            abi, content = _abi_of(wheel), wheel.read_bytes()
            if abi not in accepted:
                known = ", ".join(sorted(accepted))
                raise InvalidError(f"server.agent_wheels: {wheel} is for {abi}; known are {known}")
            actual, pin = hashlib.sha256(content).hexdigest(), accepted[abi]
            if actual != pin.sha256:
                raise InvalidError(
                    f"server.agent_wheels: the SHA-256 of {wheel} is {actual}, not {pin.sha256}; "
                    f"download it from {pin.url}"
                )
            yield abi, content
    except (OSError, zipfile.BadZipFile) as error:
        raise InvalidError(f"server.agent_wheels: {error}") from error


def _abi_of(wheel: Path) -> str:
    """Return the Python for which the compiled code in a wheel is."""
    with zipfile.ZipFile(wheel) as opened:
        for name in opened.namelist():
            match = _ABI.fullmatch(PurePosixPath(name).name)
            if match:
                return match[1]
    raise InvalidError(f"server.agent_wheels: {wheel} is not a wheel of msgspec for Linux")


def _packed(members: Mapping[str, bytes]) -> bytes:
    """Return an archive whose bytes depend on the names and contents only."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(members):
            entry = tarfile.TarInfo(name)
            entry.size = len(members[name])
            entry.mode = 0o644
            tar.addfile(entry, io.BytesIO(members[name]))
    return gzip.compress(archive.getvalue(), compresslevel=6, mtime=0)


class AgentBundles:
    """The bundles that a control plane serves: its own, and those of earlier versions.

    A machine that was bought before an update requests the bundle whose hash its user data has.
    """

    def __init__(
        self, clock: Clock, folder: Path, *, wheels: str | None = None, index: bool = False
    ) -> None:
        self._clock = clock
        self._folder = folder
        self._build = partial(build_bundle, wheels, index=index)
        self._support = partial(supported_abis, wheels, index=index)

    @cached_property
    def abis(self) -> frozenset[str]:
        """The Pythons on which the agent of a new machine starts."""
        return self._support()

    @cached_property
    def current(self) -> AgentBundle:
        """The bundle of this version, which is stored before any machine can ask for it."""
        bundle = self._build()
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._folder / bundle.sha256
        unfinished = file.with_suffix(".new")
        unfinished.write_bytes(bundle.content)
        unfinished.replace(file)
        oldest = (self._clock.now() - KEPT).timestamp()
        for other in self._folder.iterdir():
            if other != file and other.stat().st_mtime < oldest:
                other.unlink(missing_ok=True)
        return bundle

    def get(self, sha256: str) -> bytes | None:
        """Return the bundle with this hash, or None."""
        if not _SHA256.fullmatch(sha256):
            return None
        try:
            content = (self._folder / sha256).read_bytes()
        except OSError:
            return None
        return content if hashlib.sha256(content).hexdigest() == sha256 else None
