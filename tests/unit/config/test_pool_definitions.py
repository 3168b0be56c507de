"""Every invalid definition of a pool: those that the Go system refused, and those it accepted.

Each row is a file, a part of the message and a part of the remedy. In the texts `@` marks the
character that the message must point at.
"""

import pytest

from navarch.config import ConfigError, parse_config

HEAD = "providers:\n  c: {type: fake}\n  d: {type: fake}\n"


REACHABLE = "server: {external_address: https://n.com}\n"


def a_pool(lines: str, head: str = HEAD) -> str:
    body = "".join(f"    {line}\n" for line in lines.splitlines())
    return f"{head}pools:\n  p:\n{body}"


GOOD = "provider: c\ninstance_type: x\nmax_nodes: 9\n"


def refused(text: str) -> tuple[list[tuple[int, int, str, str]], tuple[int, int]]:
    """Return the problems of a text, and the place that its `@` marks."""
    before = text[: text.index("@")]
    marked = before.count("\n") + 1, len(before) - before.rfind("\n")
    with pytest.raises(ConfigError) as caught:
        parse_config(text.replace("@", "", 1), source="f")
    found = [
        (p.place.line, p.place.column, p.message, p.remedy)
        for p in caught.value.problems
        if p.place is not None
    ]
    return found, marked


SCALER = "autoscaling: "

REFUSED_BY_GO = [
    ("@server: {}\n", "at least one pool is required", "add pools:"),
    (
        a_pool("instance_type: x\nmax_nodes: 1").replace("  p:", "  @p:"),
        'pool "p": must specify provider or providers',
        "add provider:",
    ),
    (
        a_pool(GOOD + "@providers: [{name: d}]"),
        'pool "p": cannot specify both provider and providers',
        "keep provider for one",
    ),
    (
        a_pool("provider: c\nmax_nodes: 1").replace("  p:", "  @p:"),
        'pool "p": instance_type is required',
        "add instance_type:",
    ),
    (
        a_pool("provider: c\ninstance_type: x\nmax_nodes: @0"),
        'pool "p": max_nodes must be > 0',
        "max_nodes: 10",
    ),
    (a_pool(GOOD + "min_nodes: @-1"), 'pool "p": min_nodes must be >= 0', "min_nodes: 0"),
    (
        a_pool(GOOD + "min_nodes: @10"),
        'pool "p": min_nodes cannot exceed max_nodes',
        "min_nodes: 9 or less",
    ),
    (
        a_pool("provider: @x\ninstance_type: x\nmax_nodes: 1"),
        'pool "p": unknown provider "x"',
        "configured: c, d",
    ),
    (
        a_pool(GOOD + "@setup_commands: [echo]"),
        'pool "p": ssh_private_key_path is required when setup_commands are configured',
        "add ssh_private_key_path",
    ),
    (
        a_pool(GOOD, head="providers:\n  @c: {gpu_count: 8}\n"),
        'provider "c": type is required',
        "write type: ",
    ),
]
"""What the Go system refused."""

ACCEPTED_BY_GO = [
    # Thresholds
    (a_pool(GOOD + SCALER + "{type: reactive, scale_up_at: @101}"), "scale_up_at", "0 to 100"),
    (a_pool(GOOD + SCALER + "{type: reactive, scale_up_at: @-1}"), "scale_up_at", "0 to 100"),
    (
        a_pool(GOOD + SCALER + "{type: reactive, scale_up_at: @20, scale_down_at: 80}"),
        "must be above scale_down_at",
        "leave a gap",
    ),
    (a_pool(GOOD + SCALER + "{type: queue, jobs_per_node: @0}"), "jobs_per_node", "10"),
    (a_pool(GOOD + SCALER + "{type: cost-aware, scale_up_at: @200}"), "scale_up_at", "0 to 100"),
    (a_pool(GOOD + SCALER + "{type: predictive, growth_factor: @0}"), "growth_factor", "1.5"),
    (a_pool(GOOD + SCALER + "{type: predictive, lookback_window: @1}"), "lookback_window", "10"),
    (a_pool(GOOD + "health: {unhealthy_after: @0}"), "unhealthy_after", "1 to 10"),
    (a_pool(GOOD + "disruption: {savings_min: @1.5}"), "savings_min", "0.3"),
    (a_pool(GOOD + "disruption: {budgets: [{share_max: @2}]}"), "share_max", "0.1"),
    (a_pool(GOOD + "disruption: {budgets: [{nodes_max: @-1}]}"), "nodes_max", "1"),
    (a_pool(GOOD + "spares: @-1"), "spares", "2"),
    (a_pool(GOOD + "min_nodes: 8\nspares: @2"), "no room for 2 spares", "max_nodes: 10"),
    (a_pool(GOOD + "gang: @-1"), "gang must be >= 0", "leave gang out"),
    (a_pool(GOOD + "gang: @10"), "gang (10) cannot exceed max_nodes (9)", "gang: 9 or less"),
    (
        a_pool(GOOD + "gang: 4\nmin_nodes: @6"),
        "min_nodes (6) is not a multiple of gang (4)",
        "min_nodes: 4 or 8",
    ),
    (a_pool(GOOD + "gang: 4\nspares: @1"), "spares (1) is not a multiple of gang (4)", "spares: 4"),
    (
        a_pool(
            GOOD + "gang: 4\n" + SCALER + "{type: scheduled, schedule: [{end: 5, min_nodes: @6}]}"
        ),
        "min_nodes (6) is not a multiple of gang (4)",
        "min_nodes: 4 or 8",
    ),
    (
        a_pool(
            "providers: [{name: c, reservation: r, reserved_nodes: @0}]\n"
            "instance_type: x\nmax_nodes: 1"
        ),
        "reserved_nodes",
        "10",
    ),
    (
        a_pool(GOOD + SCALER + "{type: scheduled, schedule: [{min_nodes: @5, max_nodes: 2}]}"),
        "min_nodes cannot exceed max_nodes",
        "min_nodes: 2 or less",
    ),
    (a_pool(GOOD + "strategy: carbon-aware\ncarbon_g_per_kwh: {r: @-3}"), "carbon_g_per_kwh", "30"),
    # Hours and days
    (a_pool(GOOD + "disruption: {budgets: [{days: [@funday]}]}"), "day of the week", "monday"),
    (a_pool(GOOD + SCALER + "{type: cost-aware, peak_start: @25}"), "peak_start", "0 to 24"),
    (
        a_pool(GOOD + SCALER + "{type: scheduled, schedule: [{start: @25}]}"),
        "start",
        "0 to 24",
    ),
    (
        a_pool(GOOD + SCALER + "{type: scheduled, schedule: [{start: @9, end: 9}]}"),
        "is empty",
        "start: 0 and end: 24",
    ),
    (
        a_pool(GOOD + SCALER + "{type: scheduled, schedule: [{days: [@funday]}]}"),
        "must be a day of the week",
        "monday or mon",
    ),
    (
        a_pool(GOOD + SCALER + "{type: scheduled, time_zone: @Mars, schedule: [{start: 1}]}"),
        "must be a time zone",
        "Europe/Berlin",
    ),
    (
        a_pool(GOOD + SCALER + "{type: cost-aware, peak_start: @9, peak_end: 9}"),
        "is empty",
        "peak_start: 9",
    ),
    (
        a_pool(GOOD + 'disruption: {budgets: [{hours: @"9 to 5"}]}'),
        "must be hours of the day",
        "09:00-17:30",
    ),
    (
        a_pool(GOOD + 'disruption: {budgets: [{hours: @"25:00-26:00"}]}'),
        "must be hours of the day",
        "09:00-17:30",
    ),
    (
        a_pool(GOOD + "disruption: {budgets: [{time_zone: @Mars/Olympus}]}"),
        "time_zone must be a time zone",
        "Europe/Berlin",
    ),
    (
        a_pool(GOOD + 'disruption: {budgets: [{hours: @"09:00-09:00"}]}'),
        "must be hours of the day",
        "leave hours out",
    ),
    (
        a_pool(
            GOOD + SCALER + "{type: scheduled, schedule: [{start: 9, end: 17, min_nodes: 2}, "
            "@{days: [mon, tue], start: 10, end: 12, min_nodes: 4}]}"
        ),
        "never applies",
        "move it up",
    ),
    (
        a_pool(
            GOOD + SCALER + "{type: scheduled, schedule: [{start: 22, end: 6, min_nodes: 2}, "
            "{days: [sat], start: 6, end: 8, max_nodes: 3}, "
            "@{days: [sat], start: 3, end: 8, min_nodes: 4}]}"
        ),
        "never applies",
        "delete it",
    ),
    # Weights
    (
        a_pool("providers: [{name: c, weight: @0}]\ninstance_type: x\nmax_nodes: 1"),
        "weight",
        "1 to 1000000",
    ),
    (
        a_pool("providers: [{name: c, weight: @-3}]\ninstance_type: x\nmax_nodes: 1"),
        "weight",
        "1 to 1000000",
    ),
    (
        a_pool("providers: [{name: c, priority: @-1}]\ninstance_type: x\nmax_nodes: 1"),
        "priority",
        "0 to 1000000",
    ),
    # Invalid numbers
    *(
        (a_pool(GOOD + text.replace("N", f"@{number}")), words, "for example")
        for number in (".nan", ".inf", "-.inf")
        for text, words in (
            (SCALER + "{type: reactive, scale_up_at: N}", "scale_up_at"),
            (SCALER + "{type: predictive, growth_factor: N}", "growth_factor"),
            ("disruption: {savings_min: N}", "savings_min"),
            ("disruption: {budgets: [{share_max: N}]}", "share_max"),
            ("strategy: carbon-aware\ncarbon_g_per_kwh: {r: N}", "carbon_g_per_kwh"),
        )
    ),
    *(
        (
            a_pool(f"providers: [{{name: c, weight: @{number}}}]\ninstance_type: x\nmax_nodes: 1"),
            "weight",
            "1 to 1000000",
        )
        for number in (".nan", "1.5")
    ),
    (
        "budgets: [{of: fleet, limit_per_month: @.nan}]\n" + a_pool(GOOD),
        "limit_per_month",
        "for example",
    ),
    # Keys of a provider's entry
    (a_pool(GOOD + "@regions: [r, s]"), 'unknown key "regions"', 'in an entry of "providers"'),
    (a_pool(GOOD + "@weight: 3"), 'unknown key "weight"', 'in an entry of "providers"'),
    # Names that a cloud refuses
    (
        a_pool(GOOD).replace("  p:", "  @My_Pool:"),
        'pool "My_Pool": this is not a valid name for a pool',
        "such as my-pool",
    ),
    (
        a_pool("provider: c\ninstance_type: @'  '\nmax_nodes: 1"),
        "instance_type is required",
        "add instance_type:",
    ),
    (
        a_pool("providers: [{name: c, instance_type: @''}]\ninstance_type: x\nmax_nodes: 1"),
        "instance_type must not be empty",
        "leave it out",
    ),
    (
        a_pool(GOOD + "zones: [a, @'']"),
        "the name of a region or zone must not be empty",
        "leave it out",
    ),
    (
        a_pool("providers: [{name: c, regions: [@' ']}]\ninstance_type: x\nmax_nodes: 1"),
        "the name of a region or zone must not be empty",
        "leave it out",
    ),
    (
        a_pool(
            "providers: [{name: a, regions: [us-east-1], zones: [us-east-1b, @us-west-2a]}]\n"
            "instance_type: x\nmax_nodes: 1",
            head=REACHABLE + "providers:\n  a: {type: aws}\n",
        ),
        'the zone "us-west-2a" is not in us-east-1',
        "add its region",
    ),
    (
        a_pool(
            "provider: g\ninstance_type: x\nmax_nodes: 1\n"
            "region: europe-west4\nzones: [@us-central1-a]",
            head=REACHABLE + "providers:\n  g: {type: gcp, project: x}\n",
        ),
        'the zone "us-central1-a" is not in europe-west4',
        "add its region",
    ),
    (a_pool(GOOD).replace("  p:", '  @"":'), 'pool "": this is not a valid name', "a letter first"),
    (
        a_pool(GOOD).replace("  p:", "  @7b:"),
        'pool "7b": this is not a valid name',
        "a letter first",
    ),
    # Duplicate names
    (
        a_pool("providers: [{name: c}, {name: @c}]\ninstance_type: x\nmax_nodes: 1"),
        'the provider "c" is listed twice',
        "keep one of the two",
    ),
    (HEAD + "  @c: {type: fake}\n" + a_pool(GOOD, head=""), "c", "keep one"),
    (a_pool(GOOD) + "  @p: {}\n", "p", "keep one"),
    (
        a_pool(GOOD + "capacity_types: [spot, spot]").replace("cap", "@cap"),
        "twice",
        "keep the first",
    ),
    (a_pool(GOOD + "zones: [a, b, @a]"), '"a" is listed twice', "keep the first"),
    (
        a_pool("providers: [{name: c, regions: [r, @r]}]\ninstance_type: x\nmax_nodes: 1"),
        '"r" is listed twice',
        "keep the first",
    ),
    (
        a_pool("providers: [{name: c, zones: [z, @z]}]\ninstance_type: x\nmax_nodes: 1"),
        '"z" is listed twice',
        "keep the first",
    ),
    (
        a_pool(GOOD + "strategy: region-preference\nregion_order: [r, @r]"),
        '"r" is listed twice',
        "keep the first",
    ),
    (
        a_pool(GOOD + SCALER + "{type: scheduled, schedule: [{days: [mon, @monday], end: 5}]}"),
        "monday is listed twice",
        "keep the first",
    ),
    (
        a_pool(GOOD + "disruption: {budgets: [{days: [sat, sun, @sat]}]}"),
        "saturday is listed twice",
        "keep the first",
    ),
    (
        a_pool(GOOD + "disruption: {budgets: [{reasons: [maintenance, @maintenance]}]}"),
        "maintenance is listed twice",
        "keep the first",
    ),
    # The strategy, when the file is read
    (a_pool(GOOD + "strategy: @cheapest"), "unknown provider strategy: cheapest", "write "),
    (a_pool(GOOD + "strategy: @carbon-aware"), "needs carbon_g_per_kwh", "add carbon_g_per_kwh:"),
    (a_pool(GOOD + "strategy: @region-preference"), "needs region_order", "add region_order:"),
    (a_pool(GOOD + "provision_scheduler: @no spaces"), "must be a factory", "module:Class"),
    (
        a_pool(GOOD + "strategy: cost\nprovision_scheduler: @m:C"),
        "cannot specify both strategy and provision_scheduler",
        "keep strategy",
    ),
    (
        a_pool(GOOD + "@provision_settings: {a: 1}"),
        "provision_settings needs provision_scheduler",
        "add provision_scheduler",
    ),
    (
        a_pool(GOOD + SCALER + "{type: composite, autoscalers: [{type: @custom, factory: m:C}]}"),
        "unknown autoscaler type: custom",
        "valid types: reactive",
    ),
    # Durations
    *(
        (a_pool(GOOD + f"{name}: @-5m"), f"{name} must be a duration", "1h30m")
        for name in (
            "cooldown",
            "scale_down_after",
            "boot_deadline",
            "drain_timeout",
            "ip_wait_timeout",
            "ssh_timeout",
            "ssh_connect_timeout",
            "command_timeout",
        )
    ),
    *(
        (
            f"server: {{stockouts: {{{name}: @-5m}}}}\n" + a_pool(GOOD),
            f"{name} must be a duration",
            "1h30m",
        )
        for name in (
            "sold_out_first",
            "sold_out_longest",
            "fault_first",
            "fault_longest",
            "gang_first",
            "gang_longest",
        )
    ),
    (a_pool(GOOD + "disruption: {lifetime_max: @-1h}"), "lifetime_max", "1h30m"),
    (a_pool(GOOD + "disruption: {empty_after: @-1h}"), "empty_after", "1h30m"),
    (
        a_pool(GOOD + "disruption: {lifetime_max: @1m}"),
        "shorter than boot_deadline (10m)",
        "such as 30d",
    ),
    (a_pool(GOOD + "gang: 3\ngang_hold: @-1m"), "gang_hold", "1h30m"),
    ("server: {autoscale_interval: @-5s}\n" + a_pool(GOOD), "autoscale_interval", "1h30m"),
    ("server: {stockouts: {human: @-5m}}\n" + a_pool(GOOD), "human", "1h30m"),
    (a_pool(GOOD + "boot_deadline: @0s"), "boot_deadline must be a duration above zero", "1h30m"),
    (
        "server: {stockouts: {sold_out_first: @5m, sold_out_longest: 1m}}\n" + a_pool(GOOD),
        "sold_out_first cannot exceed sold_out_longest",
        "make sold_out_longest the longer",
    ),
    (
        "server: {stockouts: {gang_first: @5m, gang_longest: 1m}}\n" + a_pool(GOOD),
        "gang_first cannot exceed gang_longest",
        "make gang_longest the longer",
    ),
    # Budgets
    ("budgets: [{of: fleet, limit_per_month: @0}]\n" + a_pool(GOOD), "above zero", "5000"),
    (
        "budgets: [@{of: team, limit_per_month: 5}]\n" + a_pool(GOOD),
        "name is required",
        "add name:",
    ),
    (
        "budgets: [{of: fleet, name: @x, limit_per_month: 5}]\n" + a_pool(GOOD),
        "has no name",
        "leave name out",
    ),
    (
        "budgets: [{of: pool, name: p, limit_per_month: 5}, @{of: pool, name: p, "
        "limit_per_month: 6}]\n" + a_pool(GOOD),
        "duplicate budget for pool/p",
        "keep one of the two",
    ),
    (
        "budgets: [{of: fleet, limit_per_month: 5, warn_at: @1.5}]\n" + a_pool(GOOD),
        "warn_at",
        "0.8",
    ),
    (
        "budgets: [{of: fleet, limit_per_month: 5, when_spent: @explode}]\n" + a_pool(GOOD),
        "when_spent must be warn, downgrade or refuse",
        "write ",
    ),
]
"""What the Go system accepted: thresholds, hours, weights, duplicate names, unknown strategies,
negative durations; and mistakes in settings that it did not have."""


@pytest.mark.parametrize(
    ("text", "words", "remedy"),
    [*REFUSED_BY_GO, *ACCEPTED_BY_GO],
    ids=[f"refused-by-go-{i}" for i in range(len(REFUSED_BY_GO))]
    + [f"accepted-by-go-{i}" for i in range(len(ACCEPTED_BY_GO))],
)
def test_an_invalid_pool_is_refused_at_its_place_with_a_remedy(
    text: str, words: str, remedy: str
) -> None:
    found, marked = refused(text)
    assert [(line, column) for line, column, *_ in found] == [marked], found
    (_, _, message, help_text) = found[0]
    assert words in message
    assert remedy in f"{message} {help_text}"
    assert help_text, "no remedy"


DOUBTFUL = [
    (
        a_pool(
            GOOD + "min_nodes: 5\n@"
            "autoscaling: {type: scheduled, schedule: [{end: 5, max_nodes: 2}]}"
        ),
        "a window allows 2 nodes, but min_nodes is 5",
        "lower min_nodes",
    ),
    (
        a_pool(GOOD + "disruption: {empty_after: @10m}\nautoscaling: {type: reactive}"),
        "empty_after has no effect",
        "scale_down_after",
    ),
    (
        a_pool(
            "providers: [{name: c, regions: [eu-west-1]}]\ninstance_type: x\nmax_nodes: 1\n"
            "strategy: region-preference\nregion_order: [@eu-wset-1]"
        ),
        'no provider of this pool buys in "eu-wset-1"',
        'did you mean "eu-west-1"?',
    ),
]
"""Definitions that are valid, but probably do not work as intended."""


@pytest.mark.parametrize(
    ("text", "words", "remedy"), DOUBTFUL, ids=[f"doubtful-{i}" for i in range(len(DOUBTFUL))]
)
def test_a_doubtful_pool_is_a_warning_at_its_place_with_a_remedy(
    text: str, words: str, remedy: str
) -> None:
    (warning,) = parse_config(text.replace("@", "", 1), source="f").warnings
    before = text[: text.index("@")]
    assert warning.place is not None
    assert (warning.place.line, warning.place.column) == (
        before.count("\n") + 1,
        len(before) - before.rfind("\n"),
    )
    assert words in warning.message
    assert remedy in warning.remedy
