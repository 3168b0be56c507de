"""Receipts: what the control plane states about an evidence bundle, and the proof that it did.

A bundle leaves the cluster, for a vendor for example. Its receipt is a manifest, which holds the
hash of the bundle and where it came from, and a signature of the manifest's exact bytes.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from navarch.core.errors import InvalidError
from navarch.core.ids import InstanceId, NodeId, ProviderName
from navarch.core.incident import Evidence

FORMAT = 1

Verify = Callable[[bytes, bytes, bytes], bool]
"""Returns whether a public key made a signature of a message."""


class SigningKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key pair of the cluster. It signs until another one replaces it."""

    id: str
    number: int
    """The first key of a cluster has 1, and each further one the next number."""
    public: str
    """In hexadecimal digits."""
    secret: str = ""
    """In hexadecimal digits. Deleted when the key is replaced, so that it signs nothing more."""
    created_at: datetime
    retired_at: datetime | None = None

    def __repr__(self) -> str:
        return f"SigningKey({self.id})"


class GpuIdentity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One GPU, by what is engraved in it."""

    index: int
    uuid: str
    name: str = ""
    serial: str = ""
    """Empty if the driver reports none, or the agent is older than this field."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What the control plane states about one bundle."""

    navarch_manifest: int = FORMAT
    evidence: str
    sha256: str
    """The digest of the bundle as it was received."""
    size_bytes: int
    taken_at: datetime
    """By the clock of the machine."""
    received_at: datetime
    """By the clock of the control plane."""
    cluster: str
    node: NodeId
    provider: ProviderName | None = None
    instance: InstanceId | None = None
    """The provider's name for the machine."""
    gpus: tuple[GpuIdentity, ...] = ()
    """As the agent registered them."""
    uploaded_by: str
    """The identity whose credential the upload carried."""
    key: str
    """The id of the key that signed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A manifest, byte for byte, and its signature."""

    manifest: bytes
    signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptEvidence(Evidence):
    """A bundle as the control plane keeps it."""

    receipt: Receipt | None = None
    """None for bundles that were received before receipts existed."""


def key_id(public: bytes) -> str:
    """Return the id of a public key. It follows from the key, so it cannot name another one."""
    return hashlib.sha256(public).hexdigest()[:16]


def write_manifest(manifest: Manifest) -> bytes:
    """Return a manifest as the bytes that are signed."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def read_manifest(text: bytes) -> Manifest:
    """Return the manifest in `text`, or raise InvalidError."""
    try:
        return msgspec.json.decode(text, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidError(f"the manifest cannot be read: {error}") from error


def check_receipt(
    content: bytes, receipt: Receipt, publics: Sequence[bytes], verify: Verify
) -> Manifest:
    """Return the manifest of a bundle if one of the keys `publics` signed it for this content.

    Raises InvalidError with the reason otherwise. Nothing in a manifest is trusted before its
    signature has been verified, except which key to verify it with.
    """
    keys: Mapping[str, bytes] = {key_id(public): public for public in publics}
    manifest = read_manifest(receipt.manifest)
    public = keys.get(manifest.key)
    if public is None:
        raise InvalidError(
            f"the manifest names the key {manifest.key}, which is not among the given keys "
            f"({', '.join(keys) or 'none'}); get the keys of the cluster that received the bundle "
            "with: navarch evidence keys"
        )
    if not verify(public, receipt.signature, receipt.manifest):
        raise InvalidError(
            f"the signature does not belong to the manifest: key {manifest.key} has not signed it, "
            "or the manifest was changed since; ask the sender for the original files"
        )
    digest = hashlib.sha256(content).hexdigest()
    if digest != manifest.sha256:
        raise InvalidError(
            f"the bundle is not the one in the manifest, or was changed since: its SHA-256 is "
            f"{digest}, and {manifest.sha256} was received; ask the sender for the original files"
        )
    return manifest
