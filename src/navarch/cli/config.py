"""`navarch config`: cloud credentials, server tokens and configuration files."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import click

from navarch.cli.commands import Group
from navarch.cli.credentials import as_environment, read_credentials, write_credentials
from navarch.cli.errors import FAILED, CommandError
from navarch.cli.output import Output
from navarch.cli.printing import echo
from navarch.cli.session import Session, with_session


@click.group("config", cls=Group)
def config() -> None:
    """Store credentials and tokens; view and validate configuration files."""


@config.group("set-credentials")
def set_credentials() -> None:
    """Store the credentials of a cloud, in a file that only you can read.

    Secrets are prompted for, or read from a file or standard input (-). They are never
    arguments, which every user of the machine can see in the process list.
    """


_endpoint = click.option("--endpoint", help="URL of the API, if not the default.")
_check = click.option(
    "--check/--no-check", default=True, help="Check the credentials with a read-only call first."
)


@set_credentials.command("lambda")
@click.option("--api-key-file", type=click.File(), help="File with the API key; - for stdin.")
@_endpoint
@_check
@with_session
def lambda_credentials(
    session: Session, api_key_file: TextIO | None, endpoint: str | None, check: bool
) -> None:
    """Store a Lambda API key."""
    fields = {"api_key": _secret(api_key_file, "Lambda API key")}
    _store(session, "lambda", fields, endpoint=endpoint, check=check)


@set_credentials.command("aws")
@click.option("--profile", help="AWS profile name; no secret is stored.")
@click.option("--access-key-id", help="Access key id, instead of a profile.")
@click.option(
    "--secret-key-file", type=click.File(), help="File with the secret access key; - for stdin."
)
@click.option("--from-environment", is_flag=True, help="Use AWS's default credential chain.")
@click.option("--region", help="Default region.")
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
    """Store an AWS profile name or an access key.

    With --from-environment no secret is stored: environment variables or the instance role are
    looked up on each use.
    """
    if [profile is not None, access_key_id is not None, from_environment].count(True) != 1:
        raise click.UsageError(
            "pass exactly one of --profile, --access-key-id and --from-environment"
        )
    fields = {"region": region} if region else {}
    if profile is not None:
        fields["profile"] = profile
    elif access_key_id is not None:
        fields["access_key_id"] = access_key_id
        fields["secret_access_key"] = _secret(secret_key_file, "AWS secret access key")
    _store(session, "aws", fields, endpoint=endpoint, check=check)


@set_credentials.command("gcp")
@click.option("--project", help="Project to bill.  [default: the key's project]")
@click.option(
    "--key-file",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True),
    help="Service account key.  [default: application default credentials]",
)
@_endpoint
@_check
@with_session
def gcp_credentials(
    session: Session, project: str | None, key_file: str | None, endpoint: str | None, check: bool
) -> None:
    """Store a GCP project and the path of a service account key."""
    fields = {"project": project or _project_of(key_file)} | (
        {"key_file": key_file} if key_file else {}
    )
    _store(session, "gcp", fields, endpoint=endpoint, check=check)


def _project_of(key_file: str | None) -> str:
    """Return the project of a service account key."""
    if key_file is None:
        raise click.UsageError("pass --project, or --key-file with a service account key")
    try:
        found = json.loads(Path(key_file).read_bytes()).get("project_id", "")
    except (ValueError, AttributeError, OSError):
        raise CommandError(f"{key_file} is not a service account key") from None
    if not isinstance(found, str) or not found:
        raise click.UsageError(f"{key_file} names no project; pass --project")
    return found


def _store(
    session: Session,
    provider: str,
    fields: Mapping[str, str],
    *,
    endpoint: str | None,
    check: bool,
) -> None:
    """Store credentials, after a successful check unless `check` is False."""
    if endpoint:
        fields = {**fields, "endpoint": endpoint.rstrip("/")}
    if check:
        echo(session.environment.check(provider, fields), width=session.terminal.width)
    directory = session.environment.config_dir
    before = read_credentials(directory)
    changed = replace(before, providers={**before.providers, provider: fields})
    path = write_credentials(directory, changed)
    echo(
        f"Credentials for {provider} stored in {path}. Use them with: navarch serve",
        width=session.terminal.width,
    )


@config.command("set-token")
@click.option("--token-file", type=click.File(), help="File with the token; - for stdin.")
@with_session
def set_token(session: Session, token_file: TextIO | None) -> None:
    """Store the token for the server that -s/--server names. Only that server receives it."""
    token = _secret(token_file, f"Token for {session.server}")
    directory = session.environment.config_dir
    before = read_credentials(directory)
    changed = replace(before, tokens={**before.tokens, session.server: token})
    path = write_credentials(directory, changed)
    echo(f"Token for {session.server} stored in {path}")


def _secret(file: TextIO | None, name: str) -> str:
    """Return a secret from `file`, or from a prompt that hides the input."""
    found = file.read() if file is not None else click.prompt(name, hide_input=True)
    secret = str(found).strip()
    if not secret:
        raise click.UsageError(f"{name} is empty")
    if not secret.isprintable():
        raise click.UsageError(f"{name} must be one line of printable characters")
    return secret


@config.command("view")
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False))
@with_session
def view(session: Session, file: str | None) -> None:
    """Show the settings in force, or FILE with every default filled in."""
    if file is not None:
        # Imported late: the schema is large, and the other commands do not need it.
        import yaml

        from navarch.config import load_config, render_config

        text = render_config(load_config(file))
        session.show(yaml.safe_load(text), lambda _: text.rstrip("\n"))
        return
    stored = read_credentials(session.environment.config_dir)
    given = session.options.token or session.environment.environ.get("NAVARCH_AUTH_TOKEN")
    # Of secrets, only the source is shown.
    source = "--token or NAVARCH_AUTH_TOKEN" if given else "kept"
    facts: dict[str, str | list[str]] = {
        "server": session.server,
        "token": source if session.token else "none",
        "directory": str(session.environment.config_dir),
        "tokens_for": sorted(stored.tokens),
        "credentials": sorted(stored.providers),
    }
    words = {k: v if isinstance(v, str) else ", ".join(v) or "none" for k, v in facts.items()}
    session.show(facts, lambda _: "\n".join(f"{k + ':':<13}{v}" for k, v in words.items()))


@config.command("validate")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@with_session
def validate(session: Session, file: str) -> int:
    """Check whether the control plane accepts FILE, and list its errors.

    As for `navarch serve`, stored credentials count.
    """
    from navarch.config import ConfigError, load_config, render_verdict

    environ = session.environment.environ
    stored = read_credentials(session.environment.config_dir)
    try:
        found = load_config(file, environment={**environ, **as_environment(stored, environ)})
    except ConfigError as error:
        if session.output is Output.TABLE:
            raise
        session.show({"file": file, "valid": False, "problems": error.problems}, str)
        return FAILED
    facts = {
        "file": file,
        "valid": True,
        "pools": list(found.pools),
        "providers": list(found.providers),
        "nodes_max": sum(pool.max_nodes for pool in found.pools.values()),
        "warnings": found.warnings,
    }
    session.show(facts, lambda _: render_verdict(file, found).rstrip("\n"))
    return 0
