"""Configurations as text: YAML, the outcome of a validation, and tables of all keys."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from navarch.config.access import (
    AccessConfig,
    AuthenticatorConfig,
    BindingConfig,
    OidcConfig,
    QuotaConfig,
)
from navarch.config.alerts import CHANNEL_TYPES, AlertsConfig, RouteConfig
from navarch.config.autoscaling import AUTOSCALING_TYPES, WindowConfig
from navarch.config.config import Config
from navarch.config.disruption import (
    BudgetConfig,
    DisruptionBudgetConfig,
    DisruptionConfig,
    DomainBudgetConfig,
    GovernorConfig,
    RemediationConfig,
)
from navarch.config.policy import MetadataConfig, PolicyConfig, RuleConfig
from navarch.config.pool import DefaultsConfig, HealthConfig, PoolConfig
from navarch.config.pool_providers import PoolProviderConfig
from navarch.config.provider import PROVIDER_TYPES, BmcConfig, HostConfig
from navarch.config.scheduler import PluginConfig, QueueConfig, SchedulerConfig
from navarch.config.schema import Key, keys_of, plain_block
from navarch.config.server import (
    MetricsConfig,
    NotifierConfig,
    PeerProbesConfig,
    PrometheusConfig,
    RetentionConfig,
    ServerConfig,
    StockoutsConfig,
    TlsConfig,
    WebhookConfig,
)

SECTIONS: Mapping[str, type] = {
    "top": Config,
    "server": ServerConfig,
    "server.access": AccessConfig,
    "server.access.bindings": BindingConfig,
    "server.access.quotas": QuotaConfig,
    "server.access.oidc": OidcConfig,
    "server.access.authenticators": AuthenticatorConfig,
    "server.tls": TlsConfig,
    "server.metrics": MetricsConfig,
    "server.metrics.prometheus": PrometheusConfig,
    "server.stockouts": StockoutsConfig,
    "server.retention": RetentionConfig,
    "server.peer_probes": PeerProbesConfig,
    "server.governor": GovernorConfig,
    "server.governor budgets": DomainBudgetConfig,
    "server.notifier": NotifierConfig,
    "server.notifier.webhook": WebhookConfig,
    **{f"providers: {name}": cls for name, cls in PROVIDER_TYPES.items()},
    "providers: baremetal hosts": HostConfig,
    "providers: baremetal hosts bmc": BmcConfig,
    "pools": PoolConfig,
    "pools.providers": PoolProviderConfig,
    "pools.health": HealthConfig,
    "pools.disruption": DisruptionConfig,
    "pools.disruption.budgets": DisruptionBudgetConfig,
    "pools.remediation": RemediationConfig,
    **{f"autoscaling: {name}": cls for name, cls in AUTOSCALING_TYPES.items()},
    "autoscaling: schedule": WindowConfig,
    "defaults": DefaultsConfig,
    "budgets": BudgetConfig,
    "alerts": AlertsConfig,
    "alerts.routes": RouteConfig,
    **{f"alerts.channels: {name}": cls for name, cls in CHANNEL_TYPES.items()},
    "scheduler": SchedulerConfig,
    "scheduler.queues": QueueConfig,
    "scheduler.plugins": PluginConfig,
}
"""Every block of the file, by the name of its table in the documentation."""

POLICY_SECTIONS: Mapping[str, type] = {
    "policy": PolicyConfig,
    "policy.metadata": MetadataConfig,
    "policy.rules": RuleConfig,
}
"""Every block of a policy file, likewise."""

ALL_SECTIONS: Mapping[str, type] = {**SECTIONS, **POLICY_SECTIONS}

_TABLE = re.compile(r"<!-- keys (?P<section>[^>]+) -->\n.*?<!-- end -->", re.DOTALL)


def render_config(config: Config) -> str:
    """Return a configuration as YAML, defaults filled in and secrets masked.

    The text can be loaded again; only the secrets are lost.
    """
    plain = plain_block(config)
    return yaml.safe_dump(plain, sort_keys=False, default_flow_style=False, allow_unicode=True)


def render_verdict(source: str, config: Config) -> str:
    """Return what `navarch config validate` prints about a valid file."""
    nodes = sum(pool.max_nodes for pool in config.pools.values())
    lines = [
        f"{source} is valid: {_count(len(config.pools), 'pool')}, "
        f"{_count(len(config.providers), 'provider')}, at most {_count(nodes, 'node')}"
    ]
    lines += [f"\nwarning: {warning}" for warning in config.warnings]
    return "\n".join(lines) + "\n"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def render_reference(text: str, sections: Mapping[str, type] = ALL_SECTIONS) -> str:
    """Return the documentation with its tables generated from the schema."""
    return _TABLE.sub(lambda found: _table(found["section"], sections), text)


def _table(section: str, sections: Mapping[str, type]) -> str:
    rows = ["| Key | Value | Default | Meaning |", "|---|---|---|---|"]
    for declared in keys_of(sections[section]).values():
        rows.append(_row(declared))
        if declared.file:
            doc = f"a file that holds `{declared.name}`, instead of it"
            rows.append(f"| `{declared.name}_file` | a path | | {doc} |")
    return "\n".join([f"<!-- keys {section} -->", *rows, "<!-- end -->"])


def _row(declared: Key) -> str:
    doc = declared.doc
    if declared.environment:
        doc += f"; default: the variable `{declared.environment}`"
    if declared.restart:
        doc += " (restart)"
    default = "required" if declared.required else _default(declared)
    return f"| `{declared.name}` | {declared.kind.noun} | {default} | {doc} |"


def _default(declared: Key) -> str:
    empty = declared.default in (None, "", ()) or declared.default == {}
    plain = None if empty else declared.kind.plain(declared.default)
    if isinstance(plain, bool):
        return f"`{str(plain).lower()}`"
    return "" if plain is None or isinstance(plain, dict) else f"`{plain}`"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(render_reference(path.read_text("utf-8")), "utf-8")
