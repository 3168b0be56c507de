"""The `remediation` block of pools and the `governor` block of the server."""

from datetime import timedelta

import pytest

from navarch.config import ConfigError, parse_config
from navarch.config.disruption import to_governor, to_remediation
from navarch.core.disruption import Domain, DomainBudget
from navarch.core.recovery import RecoveryStep, Remediation

FILE = """
server:
{server}
providers:
  fake: {{type: fake}}
pools:
  training:
    provider: fake
    instance_type: h100-8x
    max_nodes: 4
{pool}
"""


def config(pool: str = "", server: str = "  address: :50051") -> object:
    return parse_config(FILE.format(pool=pool, server=server))


def remediation(pool: str) -> Remediation:
    return to_remediation(config(pool).pools["training"].remediation)  # type: ignore[attr-defined]


def test_a_pool_without_a_block_has_the_default() -> None:
    assert remediation("") == Remediation()


def test_the_name_of_a_strategy_is_enough() -> None:
    assert remediation("    remediation: ladder") == Remediation(strategy="ladder")


def test_a_block_sets_every_key() -> None:
    block = (
        "    remediation: {strategy: ladder, dry_run: true, steps: [reset_gpu, replace], "
        "reboot_deadline: 30m}"
    )
    assert remediation(block) == Remediation(
        strategy="ladder",
        dry_run=True,
        steps=(RecoveryStep.RESET_GPU, RecoveryStep.REPLACE),
        reboot_deadline=timedelta(minutes=30),
    )


def test_a_dry_run_needs_no_strategy() -> None:
    assert remediation("    remediation: {dry_run: true}") == Remediation(dry_run=True)


def test_a_custom_remediator_is_named_by_module_and_class() -> None:
    assert remediation("    remediation: my.rules:Gentle").strategy == "my.rules:Gentle"


@pytest.mark.parametrize(
    ("pool", "remedy"),
    [
        ("    remediation: laddr", 'did you mean "ladder"'),
        ("    remediation: {strategy: 7up}", "valid: cordon_and_replace, ladder, alert_only"),
        ("    remediation: {steps: [kick]}", "unknown step"),
    ],
)
def test_a_mistake_is_refused_with_its_remedy(pool: str, remedy: str) -> None:
    with pytest.raises(ConfigError, match=remedy):
        config(pool)


def test_a_budget_keeps_the_defaults_of_other_keys() -> None:
    found = config(
        server="  governor: {window: 30m, pool: {share: 0.2}, rack: {nodes: 2, nodes_per_day: 5}}"
    )
    settings = to_governor(found.server.governor)  # type: ignore[attr-defined]
    assert settings.window == timedelta(minutes=30)
    assert settings.budgets[Domain.POOL] == DomainBudget(nodes_min=1, share_max=0.2)
    assert settings.budgets[Domain.RACK] == DomainBudget(
        nodes_min=2, share_max=0.25, nodes_per_day=5, share_per_day=0.25
    )
    assert settings.budgets[Domain.DRIVER] == DomainBudget(nodes_min=3, share_max=0.05)
