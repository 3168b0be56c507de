"""Azure Key Vault: `azure-kv:https://VAULT.vault.azure.net/secrets/NAME`, or `VAULT/NAME`.

The credentials are a service principal (AZURE_TENANT_ID, AZURE_CLIENT_ID, AZURE_CLIENT_SECRET), or
the identity of the machine.
"""

import re
from collections.abc import Mapping
from urllib.parse import quote, urlencode

from navarch.core.errors import SecretError
from navarch.secrets.web import LINK_LOCAL, ask

VERSION = "7.4"
RESOURCE = "https://vault.azure.net"
LOGIN = "https://login.microsoftonline.com"
_SHORT = re.compile(r"(?P<vault>[A-Za-z0-9-]+)/(?P<name>[A-Za-z0-9-]+)", re.ASCII)
_URL = re.compile(r"https?://[^/?#]+/secrets/[A-Za-z0-9-]+(/[A-Za-z0-9]+)?", re.ASCII)


def read(name: str, environment: Mapping[str, str]) -> str:
    """Return the value of a secret."""
    short = _SHORT.fullmatch(name)
    url = f"https://{short['vault']}.vault.azure.net/secrets/{short['name']}" if short else name
    if not _URL.fullmatch(url):
        raise SecretError(f"azure-kv:{name} is not like azure-kv:my-vault/my-secret")
    what = f"azure-kv:{name}"
    found = ask(
        what,
        "GET",
        f"{url}?api-version={VERSION}",
        headers={"Authorization": f"Bearer {_token(what, environment)}"},
    )
    value = found.get("value")
    if not isinstance(value, str):
        raise SecretError(f"{what} holds no text")
    return value


def _token(what: str, environment: Mapping[str, str]) -> str:
    tenant = environment.get("AZURE_TENANT_ID")
    client, secret = environment.get("AZURE_CLIENT_ID"), environment.get("AZURE_CLIENT_SECRET")
    if tenant and client and secret:
        authority = environment.get("AZURE_AUTHORITY_HOST", LOGIN).rstrip("/")
        form = {
            "grant_type": "client_credentials",
            "client_id": client,
            "client_secret": secret,
            "scope": f"{RESOURCE}/.default",
        }
        found = ask(
            f"{what}: signing in",
            "POST",
            f"{authority}/{quote(tenant, safe='')}/oauth2/v2.0/token",
            headers={"Content-Type": "application/x-www-form-urlencoded"},
            body=urlencode(form).encode(),
        )
    else:
        query = {"api-version": "2018-02-01", "resource": RESOURCE}
        if client:
            query["client_id"] = client
        host = environment.get("AZURE_POD_IDENTITY_AUTHORITY_HOST", f"http://{LINK_LOCAL}")
        found = ask(
            f"{what}: the identity of this machine",
            "GET",
            f"{host.rstrip('/')}/metadata/identity/oauth2/token?{urlencode(query)}",
            headers={"Metadata": "true"},
        )
    token = found.get("access_token")
    if not isinstance(token, str):
        raise SecretError(f"{what}: signing in gave no token")
    return token
