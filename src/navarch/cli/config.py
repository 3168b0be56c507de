"""Commands about settings: credentials of clouds, tokens of servers, configuration files."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import click

from navarch.cli.commands import Group
from navarch.cli.credentials import Credentials, read_credentials, write_credentials
from navarch.cli.errors import CommandError
from navarch.cli.session import Session, with_session


@click.group("config", cls=Group)
def config() -> None:
    """Keep credentials and tokens; look at configuration files."""


@config.group("set-credentials")
def set_credentials() -> None:
    """Keep what a cloud wants to see, in a file that only you can read.

    Secrets are asked for, or read from a file or from standard input (-); never given as an
    argument, where every user of the machine could see them.
    """


_endpoint = click.option("--endpoint", help="Where the API is, if not at the usual place.")
_check = click.option(
    "--check/--no-check", default=True, help="Whether to try them with a harmless call first."
)


@set_credentials.command("lambda")
@click.option("--api-key-file", type=click.File(), help="Where the API key is; - for stdin.")
@_endpoint
@_check
@with_session
def lambda_credentials(
    session: Session, api_key_file: TextIO | None, endpoint: str | None, check: bool
) -> None:
    """Keep a Lambda API key."""
    words = {"api_key": _secret(api_key_file, "Lambda API key")}
    _keep(session, "lambda", words, endpoint=endpoint, check=check)


@set_credentials.command("aws")
@click.option("--profile", help="A profile of the AWS tools; nothing secret is kept.")
@click.option("--access-key-id", help="Instead of a profile: the id of an access key.")
@click.option("--secret-key-file", type=click.File(), help="Where its secret is; - for stdin.")
@click.option("--from-environment", is_flag=True, help="What AWS's tools find by themselves.")
@click.option("--region", help="The region to use where none is said.")
@_endpoint
@_check
@with_session
def aws_credentials(
    session: Session,
    profile: str | None,
    access_key_id: str | None,
    secret_key_file: TextIO | None,
    from_environment: bool,
    region: str | None,
    endpoint: str | None,
    check: bool,
) -> None:
    """Keep an AWS profile's name, or an access key.

    With --from-environment nothing secret is kept: variables, or the role of the machine, are
    found anew each time.
    """
    if [profile is not None, access_key_id is not None, from_environment].count(True) != 1:
        raise click.UsageError("say --profile or --access-key-id (or --from-environment)")
    kept = {"region": region} if region else {}
    if profile is not None:
        kept["profile"] = profile
    elif access_key_id is not None:
        kept["access_key_id"] = access_key_id
        kept["secret_access_key"] = _secret(secret_key_file, "AWS secret access key")
    _keep(session, "aws", kept, endpoint=endpoint, check=check)


@set_credentials.command("gcp")
@click.option("--project", help="The project that pays; the key's own if left out.")
@click.option(
    "--key-file",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True),
    help="A service account's key; else what the machine is logged in as.",
)
@_endpoint
@_check
@with_session
def gcp_credentials(
    session: Session, project: str | None, key_file: str | None, endpoint: str | None, check: bool
) -> None:
    """Keep a GCP project and where its service account's key is."""
    pays = project or _project_of(key_file)
    words = {"project": pays} | ({"key_file": key_file} if key_file else {})
    _keep(session, "gcp", words, endpoint=endpoint, check=check)


def _project_of(key_file: str | None) -> str:
    """Return the project that a service account's key belongs to."""
    if key_file is None:
        raise click.UsageError("say --project, or --key-file with the key of a service account")
    try:
        found = json.loads(Path(key_file).read_bytes()).get("project_id", "")
    except (ValueError, AttributeError, OSError):
        raise CommandError(f"{key_file} is not the key of a service account") from None
    if not isinstance(found, str) or not found:
        raise click.UsageError(f"say --project: {key_file} does not name one")
    return found


def _keep(
    session: Session,
    provider: str,
    words: Mapping[str, str],
    *,
    endpoint: str | None,
    check: bool,
) -> None:
    """Keep what has proved to open something; of what has not, nothing is kept."""
    if check:
        tried = {**words, "endpoint": endpoint.rstrip("/")} if endpoint else words
        click.echo(session.environment.check(provider, tried))

    def changed(before: Credentials) -> Credentials:
        return replace(before, providers={**before.providers, provider: words})

    path = _change(session, changed)
    click.echo(f"Credentials for {provider} kept in {path}")


@config.command("set-token")
@click.option("--token-file", type=click.File(), help="Where the token is; - for stdin.")
@with_session
def set_token(session: Session, token_file: TextIO | None) -> None:
    """Keep the token for the server that -s/--server names; it is sent to no other."""
    token = _secret(token_file, f"Token for {session.server}")

    def changed(before: Credentials) -> Credentials:
        return replace(before, tokens={**before.tokens, session.server: token})

    path = _change(session, changed)
    click.echo(f"Token for {session.server} kept in {path}")


def _change(session: Session, changed: Callable[[Credentials], Credentials]) -> Path:
    directory = session.environment.config_dir
    return write_credentials(directory, changed(read_credentials(directory)))


def _secret(file: TextIO | None, name: str) -> str:
    """Return a secret from a file, or as typed and not shown."""
    found = file.read() if file is not None else click.prompt(name, hide_input=True)
    secret = str(found).strip()
    if not secret:
        raise click.UsageError(f"{name}: nothing was given")
    if not secret.isprintable():
        raise click.UsageError(f"{name}: a secret is one line of printable characters")
    return secret


@config.command("view")
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False))
@with_session
def view(session: Session, file: str | None) -> None:
    """Show how this program is set up; of FILE, what it comes to with every default."""
    if file is not None:
        _show_file(session, file)
        return
    facts = _setup(session)
    session.show(facts, lambda _: "\n".join(f"{k + ':':<13}{_words(v)}" for k, v in facts.items()))


def _show_file(session: Session, file: str) -> None:
    # Loaded late: the schema is large, and a token can be kept without it.
    import yaml

    from navarch.config import load_config, render_config

    text = render_config(load_config(file))
    session.show(yaml.safe_load(text), lambda _: text.rstrip("\n"))


def _setup(session: Session) -> dict[str, str | list[str]]:
    """Return the settings in force. Of secrets only where they are from."""
    kept = read_credentials(session.environment.config_dir)
    told = session.options.token or session.environment.environ.get("NAVARCH_AUTH_TOKEN")
    source = "--token or NAVARCH_AUTH_TOKEN" if told else "kept"
    return {
        "server": session.server,
        "token": source if session.token else "none",
        "directory": str(session.environment.config_dir),
        "tokens_for": sorted(kept.tokens),
        "credentials": sorted(kept.providers),
    }


def _words(value: str | list[str]) -> str:
    return value if isinstance(value, str) else ", ".join(value) or "none"


@config.command("validate")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
def validate(file: str) -> None:
    """Say whether the control plane would accept FILE, and what is wrong with it."""
    from navarch.config import load_config, render_verdict

    click.echo(render_verdict(file, load_config(file)).rstrip("\n"))
