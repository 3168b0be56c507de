"""Rendering: configurations as YAML, and the outcome of validating one as text."""

import yaml

from navarch.config.config import Config
from navarch.config.errors import ConfigError
from navarch.config.schema import plain_block


def render_config(config: Config) -> str:
    """Return a configuration as YAML, defaults filled in and secrets masked.

    The text can be loaded again; only the secrets are lost.
    """
    plain = plain_block(config)
    return yaml.safe_dump(plain, sort_keys=False, default_flow_style=False, allow_unicode=True)


def render_verdict(source: str, verdict: Config | ConfigError) -> str:
    """Return what `navarch config validate` prints about a file."""
    if isinstance(verdict, ConfigError):
        return f"{verdict}\n"
    lines = [f"{source} is valid: {_summary(verdict)}"]
    lines += [f"\nwarning: {warning}" for warning in verdict.warnings]
    return "\n".join(lines) + "\n"


def _summary(config: Config) -> str:
    nodes = sum(pool.max_nodes for pool in config.pools.values())
    return (
        f"{_count(len(config.pools), 'pool')}, {_count(len(config.providers), 'provider')}, "
        f"at most {_count(nodes, 'node')}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
