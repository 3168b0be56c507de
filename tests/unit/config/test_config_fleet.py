"""Whole configurations: examples, pools, offerings, reloading and rendering."""

import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import ClassVar

import pytest

from navarch.catalogue.machines import find_machine
from navarch.config import (
    Config,
    ConfigError,
    Secret,
    compare,
    load_config,
    parse_config,
    render_config,
    render_verdict,
    to_pool,
    to_pool_specs,
)
from navarch.config.autoscaling import CompositeConfig, ReactiveConfig, ScheduledConfig
from navarch.config.kinds import COUNT
from navarch.config.pool_providers import Strategy
from navarch.config.provider import PROVIDER_TYPES
from navarch.config.schema import block, key
from navarch.config.server import StockoutsConfig, to_pauses
from navarch.core.autoscaling import Day
from navarch.core.launch import Refusal
from navarch.fleet.stockouts import SPANS

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples" / "config").glob("*.yaml"))

# Every key and form of older guides and examples.
CLASSIC = """\
server:
  address: ":50051"
  external_address: http://control-plane.example.com:50051
  heartbeat_interval: 5s
  heartbeat_timeout: 10s
  health_check_interval: 30s
  autoscale_interval: 10s
  health_policy: ./health-policy.yaml
  notifier:
    type: webhook
    webhook:
      cordon_url: https://s.example.com/cordon
      uncordon_url: https://s.example.com/uncordon
      drain_url: https://s.example.com/drain
      drain_status_url: https://s.example.com/status
      timeout: 30s
      headers: {Authorization: Bearer abc}
providers:
  lambda: {type: lambda, api_key_env: LAMBDA_API_KEY}
  gcp: {type: gcp, project: my-project, zone: us-central1-b}
  aws: {type: aws, region: us-east-1}
  fake: {type: fake, gpu_count: 8}
pools:
  training:
    provider: lambda
    instance_type: gpu_8x_h100_sxm5
    region: us-west-2
    zones: []
    ssh_keys: [ops-team]
    min_nodes: 2
    max_nodes: 20
    cooldown: 5m
    labels: {workload: training}
    setup_commands:
      - nohup agent -server {{.ControlPlane}} -pool {{.Pool}} > /var/log/agent.log 2>&1 &
    ssh_user: ubuntu
    ssh_private_key_path: ~/.ssh/key
    autoscaling: {type: reactive, scale_up_at: 80, scale_down_at: 20}
    health: {unhealthy_after: 2, auto_replace: true}
  fungible:
    providers:
      - {name: lambda, priority: 1, weight: 3, regions: [us-west-2, us-east-1]}
      - {name: gcp, priority: 2, zones: [us-central1-a], instance_type: a3-highgpu-8g}
    strategy: round-robin
    instance_type: h100-8x
    min_nodes: 4
    max_nodes: 32
  batch:
    provider: fake
    instance_type: fake-8xgpu
    min_nodes: 0
    max_nodes: 100
    labels: {pool: batch}
    autoscaling:
      type: scheduled
      schedule:
        - days: [monday, TUE, Wednesday, thursday, friday]
          start: 9
          end: 18
          min_nodes: 10
          max_nodes: 100
        - {days: [saturday, sunday], start: 0, end: 24, min_nodes: 0, max_nodes: 10}
      fallback: {type: reactive, scale_up_at: 80, scale_down_at: 20}
  mixed:
    provider: aws
    instance_type: p4d.24xlarge
    max_nodes: 5
    autoscaling:
      type: composite
      mode: avg
      autoscalers:
        - {type: predictive, lookback_window: 30, growth_factor: 1.5, fallback: {type: reactive}}
        - {type: queue, jobs_per_node: 50}
defaults:
  ssh_keys: [ssh-ed25519 AAAAC3 ops-team]
  ssh_user: admin
  ssh_private_key_path: ~/.ssh/other
  health: {unhealthy_after: 4, auto_replace: false}
"""

SMALL = """\
server: {address: ":1", auth_token: one-sixteen-or-more, heartbeat_interval: 30s, external_address: https://n.com}
providers: {c: {type: fake}, l: {type: lambda, api_key: k1, ssh_key: o}}
pools:
  p: {provider: c, instance_type: x, max_nodes: 1}
  q: {provider: l, region: r, instance_type: y, max_nodes: 2}
"""


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_accepted(path: Path) -> None:
    config = load_config(path)

    assert to_pool_specs(config)


def test_there_are_examples() -> None:
    assert EXAMPLES


def test_the_classic_schema_is_accepted_in_full() -> None:
    config = parse_config(CLASSIC, environment={"LAMBDA_API_KEY": "k"})

    assert config.warnings == ()
    assert config.server.silence == timedelta(seconds=10)
    assert config.server.health_policy == "health-policy.yaml"
    batch = config.pools["batch"].autoscaling
    assert isinstance(batch, ScheduledConfig)
    assert batch.schedule[0].days[1] is Day.TUESDAY
    assert batch.fallback == ReactiveConfig(scale_up_at=80, scale_down_at=20)
    mixed = config.pools["mixed"].autoscaling
    assert isinstance(mixed, CompositeConfig)
    assert config.pools["fungible"].strategy is Strategy.ROUND_ROBIN


def test_both_addresses_may_use_any_free_port() -> None:
    text = SMALL.replace('address: ":1"', 'address: ":0", grpc_address: ":0"')

    assert parse_config(text).server.grpc_address == ":0"


def test_defaults_apply_to_keys_that_pools_leave_out() -> None:
    pools = parse_config(CLASSIC).pools

    assert pools["training"].ssh_keys == ("ops-team",)
    assert pools["training"].health.auto_replace
    assert pools["batch"].ssh_keys == ("ssh-ed25519 AAAAC3 ops-team",)
    assert pools["batch"].ssh_user == "admin"
    assert pools["batch"].health.unhealthy_after == 4
    assert not pools["batch"].health.auto_replace


@pytest.mark.parametrize(
    ("health", "replaces"),
    [
        ("", True),
        ("health: {}", True),
        ("health:", True),
        ("health: {unhealthy_after: 3}", True),
        ("health: {auto_replace: false}", False),
    ],
)
def test_nodes_are_replaced_unless_auto_replace_is_false(health: str, replaces: bool) -> None:
    text = f"""\
providers: {{c: {{type: fake}}}}
pools:
  p:
    provider: c
    instance_type: x
    max_nodes: 1
    {health}
"""
    assert parse_config(text).pools["p"].health.auto_replace is replaces


def test_abstract_types_depend_on_the_type_of_a_provider_and_not_on_its_name() -> None:
    config = parse_config(
        """\
server: {external_address: https://n.com}
providers:
  gcp: {type: aws, region: us-east-1}
  mine: {type: gcp, project: p, zone: europe-west4-b}
  lam: {type: lambda, api_key: k, ssh_key: o}
  fake: {type: fake, gpu_count: 4, prices: {odd: 1.5}}
pools:
  a:
    providers:
      - {name: gcp, priority: 3}
      - {name: mine, priority: 2}
      - {name: lam, priority: 1, regions: [us-west-2, us-east-1]}
    instance_type: h100-8x
    max_nodes: 8
  b: {provider: fake, instance_type: odd, max_nodes: 1}
  c:
    provider: mine
    instance_type: n9-new-8g
    region: us-central1
    zones: [us-central1-a, us-central1-c]
    max_nodes: 1
"""
    )
    a, b, c = to_pool_specs(config)

    assert [(o.provider, o.instance_type, o.region, o.zone) for o in a.offerings] == [
        ("lam", "gpu_8x_h100_sxm5", "us-west-2", ""),
        ("lam", "gpu_8x_h100_sxm5", "us-east-1", ""),
        ("mine", "a3-highgpu-8g", "europe-west4", "europe-west4-b"),
        ("gcp", "p5.48xlarge", "us-east-1", ""),
    ]
    assert {offering.gpus for offering in a.offerings} == {8}
    assert (b.offerings[0].gpus, b.offerings[0].price_per_hour) == (4, Decimal("1.5"))
    assert [(o.region, o.zone) for o in c.offerings] == [
        ("us-central1", "us-central1-a"),
        ("us-central1", "us-central1-c"),
    ]


def test_the_cost_strategy_puts_the_cheapest_first_and_unknown_prices_last() -> None:
    config = parse_config(
        """\
server: {external_address: https://n.com}
providers: {d: {type: docker}, g: {type: gcp, project: p}, l: {type: lambda, ssh_key: o}}
pools:
  p:
    providers: [{name: d}, {name: g}, {name: l}]
    strategy: cost
    instance_type: h100-8x
    max_nodes: 1
"""
    )
    (spec,) = to_pool_specs(config)

    assert [offering.provider for offering in spec.offerings] == ["l", "g", "d"]


def test_a_spec_becomes_a_pool_with_its_own_label() -> None:
    config = parse_config(CLASSIC)

    pools = {spec.name: to_pool(spec) for spec in to_pool_specs(config)}

    training = pools[to_pool_specs(config)[0].name]
    assert training.labels == {"workload": "training", "pool": "training"}
    assert (training.nodes_min, training.nodes_max, training.size) == (2, 20, 2)


@block()
class RackConfig:
    """A provider from another package."""

    type: ClassVar[str] = "rack"
    name: str
    aisle: int = key(COUNT, doc="which aisle")


def test_a_provider_of_an_extension_declares_its_own_keys() -> None:
    text = """\
providers: {r: {type: rack, aisle: %s}}
pools: {p: {provider: r, instance_type: x, max_nodes: 1}}
"""
    types = {**PROVIDER_TYPES, "rack": RackConfig}

    config = parse_config(text % 3, provider_types=types)

    provider: object = config.providers["r"]
    assert provider == RackConfig(name="r", aisle=3)
    assert to_pool_specs(config)[0].offerings[0].provider == "r"
    with pytest.raises(ConfigError, match="aisle must be a whole number"):
        parse_config(text % "x", provider_types=types)


def test_a_reload_applies_what_it_can_and_names_the_rest() -> None:
    old = parse_config(SMALL)
    new = parse_config(
        """\
server: {address: ":2", auth_token: two-sixteen-or-more, heartbeat_interval: 10s, external_address: https://n.com}
providers: {c: {type: fake, gpu_count: 4}, l: {type: lambda, api_key: k2, ssh_key: o},
  n: {type: fake}}
pools:
  p: {provider: c, instance_type: x, max_nodes: 9}
  r: {provider: c, instance_type: x, max_nodes: 1}
  s: {provider: n, instance_type: x, max_nodes: 1}
"""
    )
    reload = compare(old, new)

    assert list(reload.applied) == [
        "server.auth_token has changed",
        'server.heartbeat_interval changes from "30s" to "10s"',
        "providers.l.api_key has changed",
        "pools.p.max_nodes changes from 1 to 9",
        "pools.r is new",
        "pools.q is no longer in the file; it is kept, "
        "and `navarch pool delete q` terminates its nodes",
    ]
    assert list(reload.waiting) == [
        'server.address changes from ":1" to ":2", which needs a restart: '
        "the port is opened once, when the server starts",
        "providers.c.gpu_count changes from 8 to 4, which needs a restart: "
        "providers are connected once, when the server starts",
        "providers.n is new; it is connected at the next restart",
        "pools.s needs a restart, because its provider n does",
    ]
    assert reload.config.server.address == ":1"
    assert reload.config.server.auth_token == Secret("two-sixteen-or-more")
    assert list(reload.config.pools) == ["p", "r"]
    assert reload.pools_changed == ("p", "r")


def test_a_second_reload_reports_only_what_still_needs_a_restart() -> None:
    old = parse_config(SMALL)
    new = parse_config(SMALL.replace('":1"', '":2"').replace("max_nodes: 1", "max_nodes: 5"))

    again = compare(compare(old, new).config, new)

    assert again.applied == ()
    (waiting,) = again.waiting
    assert waiting.startswith("server.address changes")


def test_an_unchanged_file_changes_nothing() -> None:
    config = parse_config(CLASSIC)

    reload = compare(config, parse_config(CLASSIC))

    assert str(reload) == "nothing has changed"
    assert reload.config == config


def test_a_removed_or_retyped_provider_stays_until_a_restart() -> None:
    old = parse_config(SMALL)
    text = SMALL.replace("c: {type: fake}", "c: {type: docker}").replace(
        ", l: {type: lambda, api_key: k1, ssh_key: o}", ""
    )
    new = parse_config(text.replace("provider: l", "provider: c"))

    reload = compare(old, new)

    assert list(reload.waiting) == [
        "providers.c is now of type docker; it stays fake until a restart",
        "providers.l is no longer in the file; it stays connected until a restart",
    ]
    assert reload.config.providers == old.providers


def test_a_changed_header_is_reported_without_its_value() -> None:
    text = CLASSIC.replace("Bearer abc", "Bearer def")

    (change,) = compare(parse_config(CLASSIC), parse_config(text)).applied

    assert change == "server.notifier.webhook.headers has changed"


@pytest.mark.parametrize("text", [CLASSIC, SMALL], ids=["classic", "small"])
def test_a_rendered_configuration_reads_back_unchanged(text: str) -> None:
    config = parse_config(text)

    rendered = render_config(config)

    # The mask of a token is no token.
    again = parse_config(re.sub(r"auth_token: .*", "auth_token: sixteen-or-more-x", rendered))
    assert render_config(again) == rendered
    assert again.pools == config.pools
    for secret in ("abc", "one", "k1"):
        assert f": {secret}" not in rendered


def test_a_valid_file_is_summarised_with_its_warnings() -> None:
    text = SMALL.replace(", api_key: k1", "")

    assert render_verdict("f", parse_config(text, source="f")) == (
        "f is valid: 2 pools, 2 providers, at most 3 nodes\n"
        "\n"
        'warning: f:2:30: provider "l": LAMBDA_API_KEY environment variable is required\n'
        "  2 | providers: {c: {type: fake}, l: {type: lambda, ssh_key: o}}\n"
        "    |                              ^\n"
        "  help: set LAMBDA_API_KEY where the server runs, or write api_key_file\n"
    )


GOLDEN = """\
invalid config: 5 problems

fleet.yaml:3:3: unknown key "heartbeat_intervall"
  3 |   heartbeat_intervall: 30s
    |   ^
  help: did you mean "heartbeat_interval"?

fleet.yaml:9:3: pool "training": instance_type is required
  9 |   training:
    |   ^
  help: add instance_type: with a name of the provider's, or one such as h100-8x

fleet.yaml:10:15: pool "training": unknown provider "gpc"
  10 |     provider: gpc
     |               ^
  help: did you mean "gcp"?

fleet.yaml:11:16: pool "training": min_nodes cannot exceed max_nodes
  11 |     min_nodes: 5
     |                ^
  help: write min_nodes: 2 or less, or a higher max_nodes

fleet.yaml:15:20: pool "training": scale_up_at (20) must be above scale_down_at (60)
  15 |       scale_up_at: 20
     |                    ^
  help: leave a gap between them, or the pool alternates between growing and shrinking
"""


def test_all_mistakes_of_a_file_are_reported_at_once() -> None:
    text = """\
# A fleet with a few mistakes in it.
server:
  heartbeat_intervall: 30s
  auth_token: hunter2-hunter2-hunter2

providers:
  gcp: {type: gcp, project: p}
pools:
  training:
    provider: gpc
    min_nodes: 5
    max_nodes: 2
    autoscaling:
      type: reactive
      scale_up_at: 20
      scale_down_at: 60
"""
    with pytest.raises(ConfigError) as caught:
        parse_config(text, source="fleet.yaml")

    assert f"{caught.value}\n" == GOLDEN


@pytest.mark.parametrize(
    ("autoscaling", "source"),
    [
        ("{type: scheduled, schedule: [{min_nodes: 5}]}", "a window"),
        ("{type: cost-aware, off_peak_nodes: 5}", "cost-aware"),
        ("{type: predictive, fallback: {type: cost-aware, off_peak_nodes: 5}}", "cost-aware"),
    ],
)
def test_an_autoscaler_with_a_floor_above_max_nodes_is_a_warning(
    autoscaling: str, source: str
) -> None:
    text = SMALL.replace("max_nodes: 1}", f"max_nodes: 1, autoscaling: {autoscaling}}}")

    (warning,) = parse_config(text).warnings

    assert warning.message == (
        f'pool "p": {source} keeps 5 nodes, but max_nodes is 1, which takes precedence'
    )


def test_warnings_do_not_make_configurations_differ() -> None:
    config = parse_config(SMALL)

    assert replace(config, warnings=()) == config
    assert config != Config()


def test_the_capacity_types_of_a_provider_order_those_of_the_pool() -> None:
    text = """
providers:
  f: {type: fake}
  g: {type: fake}
pools:
  p:
    providers: [{name: f, capacity_types: [spot, on-demand]}, {name: g}]
    instance_type: h100-8x
    max_nodes: 9
"""
    (spec,) = to_pool_specs(parse_config(text))

    bought = [(offering.provider, offering.capacity_type) for offering in spec.offerings]
    assert bought == [("f", "spot"), ("f", "on demand"), ("g", "on demand")]


def test_a_gang_without_room_to_move_is_a_warning() -> None:
    text = """
providers: {f: {type: fake}}
pools:
  p: {provider: f, instance_type: h100-8x, gang: 4, min_nodes: 4, max_nodes: MAX}
"""
    (warning,) = parse_config(text.replace("MAX", "5")).warnings
    assert "no room for a gang to move" in warning.message
    assert (warning.place and warning.place.line, warning.remedy) == (
        4,
        "write max_nodes: 8 or more",
    )
    assert parse_config(text.replace("MAX", "8")).warnings == ()


def test_the_default_pauses_of_the_file_are_those_of_the_code() -> None:
    assert to_pauses(StockoutsConfig()) == SPANS
    assert set(to_pauses(StockoutsConfig())) == set(Refusal)


def test_reservations_come_first_and_then_capacity_types_in_order() -> None:
    text = """
providers:
  f:
    type: fake
    prices: {h100-8x: 98.32}
    spot_prices: {h100-8x: 30}
pools:
  p:
    providers: [{name: f, reservation: cr-1, reserved_nodes: 4}]
    instance_type: h100-8x
    zones: [a, b]
    capacity_types: [spot, on-demand]
    min_nodes: 4
    max_nodes: 9
    gang: 4
    gang_hold: 5m
"""
    (spec,) = to_pool_specs(parse_config(text))

    assert [(x.capacity_type, x.zone, x.price_per_hour) for x in spec.offerings] == [
        ("reserved", "a", Decimal("98.32")),
        ("reserved", "b", Decimal("98.32")),
        ("spot", "a", Decimal(30)),
        ("spot", "b", Decimal(30)),
        ("on demand", "a", Decimal("98.32")),
        ("on demand", "b", Decimal("98.32")),
    ]
    assert {x.reserved_nodes for x in spec.offerings if x.reservation == "cr-1"} == {4}
    assert (spec.gang, spec.gang_hold) == (4, timedelta(minutes=5))


def test_spot_prices_come_from_the_catalogue_until_a_provider_reports_them() -> None:
    text = """
server: {external_address: https://n.com}
providers:
  amazon: {type: aws, region: us-east-1}
  google: {type: gcp, project: p, zone: us-central1-a}
  elsewhere: {type: fake}
pools:
  p:
    providers:
      - {name: amazon, instance_type: p5.48xlarge}
      - {name: google, instance_type: a3-highgpu-8g}
      - {name: elsewhere}
    instance_type: h100-8x
    strategy: cost
    capacity_types: [spot, on-demand]
    max_nodes: 2
"""
    (spec,) = to_pool_specs(parse_config(text))

    for account, cloud, name in (
        ("amazon", "aws", "p5.48xlarge"),
        ("google", "gcp", "a3-highgpu-8g"),
    ):
        machine = find_machine(cloud, name)
        assert machine is not None
        assert 0 < machine.spot_usd_per_hour < machine.usd_per_hour
        found = {x.spot: x.price_per_hour for x in spec.offerings if x.provider == account}
        assert found == {True: machine.spot_usd_per_hour, False: machine.usd_per_hour}
    known = [x.price_per_hour for x in spec.offerings if x.price_per_hour]
    assert known == sorted(known), "the cheapest first"
    assert spec.offerings[-1].price_per_hour == 0, "what nobody knows the price of comes last"
