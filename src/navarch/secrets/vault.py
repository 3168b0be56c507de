"""HashiCorp Vault, KV version 2: `vault:MOUNT/PATH#FIELD`.

The address and the token come from VAULT_ADDR, and from VAULT_TOKEN or the file VAULT_TOKEN_FILE,
which Vault's agent renews.
"""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import msgspec

from navarch.core.errors import SecretError
from navarch.secrets.web import ask


def read(name: str, environment: Mapping[str, str]) -> str:
    """Return the fields of a secret as a JSON object."""
    mount, slash, path = name.partition("/")
    if not mount or not slash or not path:
        raise SecretError(f"vault:{name} is not like vault:secret/navarch#token")
    address = environment.get("VAULT_ADDR")
    if not address:
        raise SecretError(f"vault:{name}: VAULT_ADDR is not set")
    headers = {"X-Vault-Token": _token(name, environment), "X-Vault-Request": "true"}
    namespace = environment.get("VAULT_NAMESPACE")
    if namespace:
        headers["X-Vault-Namespace"] = namespace
    url = f"{address.rstrip('/')}/v1/{quote(mount)}/data/{quote(path)}"
    found = ask(f"vault:{name}", "GET", url, headers=headers).get("data")
    fields = found.get("data") if isinstance(found, dict) else None
    if not isinstance(fields, dict):
        raise SecretError(f"vault:{name} has no fields; was it deleted, or is {mount} not KV 2?")
    return msgspec.json.encode(fields).decode()


def _token(name: str, environment: Mapping[str, str]) -> str:
    file = environment.get("VAULT_TOKEN_FILE")
    if file:
        try:
            return Path(file).read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            raise SecretError(f"vault:{name}: {file} cannot be read") from None
    token = environment.get("VAULT_TOKEN")
    if not token:
        raise SecretError(f"vault:{name}: set VAULT_TOKEN_FILE or VAULT_TOKEN")
    return token
