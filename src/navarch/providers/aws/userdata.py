"""User data: what cloud-init runs at a machine's first boot, within EC2's limits."""

import gzip
from collections.abc import Sequence
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

import msgspec

from navarch.core.errors import RejectedError

SIZE_MAX = 16 * 1024
"""The largest user data that EC2 accepts, before base64."""


def split_keys(ssh_keys: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names of EC2 key pairs, and the public keys that are written out."""
    names = [key for key in ssh_keys if " " not in key.strip()]
    return names, [key.strip() for key in ssh_keys if key not in names]


def user_data(text: str, public_keys: Sequence[str]) -> bytes:
    """Return the user data for cloud-init.

    EC2 accepts one named key pair per machine; keys that are written out are added here. The same
    input gives the same bytes: EC2 refuses a token that returns with other parameters.
    """
    plain = text.encode() if not public_keys else _with_keys(text, public_keys)
    if len(plain) <= SIZE_MAX:
        return plain
    packed = gzip.compress(plain, mtime=0)
    if len(packed) > SIZE_MAX:
        raise RejectedError(
            f"user_data: {len(packed)} bytes after compression, and EC2 takes {SIZE_MAX}; "
            "fetch the rest from the machine"
        )
    return packed


def _with_keys(text: str, public_keys: Sequence[str]) -> bytes:
    keys = msgspec.json.encode({"ssh_authorized_keys": list(public_keys)}).decode()
    parts = MIMEMultipart(boundary="==navarch==")
    # JSON is valid YAML. Cloud-init merges the keys of both parts.
    merge = "#cloud-config\n# keys of the pool\n"
    parts.attach(_part(merge + keys + "\n"))
    if text:
        parts.attach(_part(text))
    return parts.as_bytes()


def _part(text: str) -> MIMEText:
    kind = "x-shellscript" if text.startswith("#!") else "cloud-config"
    part = MIMEText(text, kind, "us-ascii" if text.isascii() else "utf-8")
    if kind == "cloud-config":
        part["Merge-Type"] = "list(append)+dict(recurse_array)+str()"
    return part
