"""Every rule of the configuration, with the place, message and remedy of its violation."""

import pytest

from navarch.config import ConfigError, parse_config

PROVIDERS = "providers: {c: {type: fake}}\n"
POOL = "pools: {p: {provider: c, instance_type: x, max_nodes: 1}}\n"


def problems(text: str, **environment: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, source="f", environment=environment)
    return [
        f"{p.place.line}:{p.place.column}: {p.message}" if p.place else p.message
        for p in caught.value.problems
    ]


def in_pool(lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines.splitlines())
    return PROVIDERS + "pools:\n  p:\n    provider: c\n    instance_type: x\n" + body


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "1:1: at least one pool is required"),
        ("pools: {}\n", "1:1: at least one pool is required"),
        ("pools:\n", "1:1: at least one pool is required"),
        (
            PROVIDERS + "pools: {p: {instance_type: x, max_nodes: 1}}",
            '2:9: pool "p": must specify provider or providers',
        ),
        (
            PROVIDERS + "pools: {p: {providers: [], instance_type: x, max_nodes: 1}}",
            '2:9: pool "p": must specify provider or providers',
        ),
        (
            in_pool("max_nodes: 1\nproviders: [{name: c}]"),
            '7:5: pool "p": cannot specify both provider and providers',
        ),
        (
            PROVIDERS + "pools: {p: {provider: c, max_nodes: 1}}",
            '2:9: pool "p": instance_type is required',
        ),
        (in_pool("min_nodes: 0"), '3:3: pool "p": max_nodes must be > 0'),
        (in_pool("max_nodes: 0"), '6:16: pool "p": max_nodes must be > 0'),
        (in_pool("max_nodes: -2"), '6:16: pool "p": max_nodes must be > 0'),
        (in_pool("max_nodes: 1\nmin_nodes: -1"), '7:16: pool "p": min_nodes must be >= 0'),
        (
            in_pool("min_nodes: 3\nmax_nodes: 2"),
            '6:16: pool "p": min_nodes cannot exceed max_nodes',
        ),
        (
            PROVIDERS + "pools: {p: {provider: x, instance_type: x, max_nodes: 1}}",
            '2:23: pool "p": unknown provider "x"',
        ),
        (
            PROVIDERS + "pools: {p: {providers: [{name: q}], instance_type: x, max_nodes: 1}}",
            '2:32: pool "p": unknown provider "q"',
        ),
        (
            in_pool("max_nodes: 1\nsetup_commands: [echo]"),
            '7:5: pool "p": ssh_private_key_path is required when setup_commands are configured',
        ),
        ("providers: {c: {gpu_count: 8}}\n" + POOL, '1:13: provider "c": type is required'),
        ("providers: {c: }\n" + POOL, '1:13: provider "c": type is required'),
    ],
)
def test_mistakes_that_the_go_system_refused_keep_its_messages(text: str, expected: str) -> None:
    assert problems(text) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            in_pool("max_nodes: 1\nautoscaling: {type: magic}"),
            '7:25: pool "p": unknown autoscaler type: magic',
        ),
        (
            in_pool("max_nodes: 1\nstrategy: cheapest"),
            '7:15: pool "p": unknown provider strategy: cheapest',
        ),
        (
            "providers: {c: {type: azur}}\n" + POOL,
            '1:23: provider "c": unknown provider type: azur',
        ),
        (
            in_pool("max_nodes: 1\nautoscaling: {scale_up_at: 80}"),
            '7:5: pool "p": type is required',
        ),
    ],
)
def test_unknown_types_are_found_when_the_file_is_read(text: str, expected: str) -> None:
    assert problems(text) == [expected]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (
            "type: reactive\nscale_up_at: 101",
            '9:20: {} scale_up_at must be a whole number from 0 to 100, not "101"',
        ),
        (
            "type: reactive\nscale_down_at: -1",
            '9:22: {} scale_down_at must be a whole number from 0 to 100, not "-1"',
        ),
        (
            "type: reactive\nscale_up_at: 20",
            "9:20: {} scale_up_at (20) must be above scale_down_at (20)",
        ),
        (
            "type: queue\njobs_per_node: 0",
            '9:22: {} jobs_per_node must be a whole number, 1 or more, not "0"',
        ),
        (
            "type: scheduled\nschedule: [{start: 9, end: 25}]",
            '9:34: {} end must be a whole number from 0 to 24, not "25"',
        ),
        (
            "type: scheduled\nschedule: [{start: 9, end: 9}]",
            "9:26: {} the window from 9 to 9 is empty",
        ),
        (
            "type: scheduled\nschedule: [{days: [mon, caturday]}]",
            '9:31: {} days[1] must be a day of the week, not "caturday"',
        ),
        (
            "type: scheduled\nschedule: [{min_nodes: 5, max_nodes: 4}]",
            "9:30: {} min_nodes cannot exceed max_nodes",
        ),
        (
            "type: scheduled\ntime_zone: Mars/Olympus\nschedule: [{}]",
            '9:18: {} time_zone must be a time zone, not "Mars/Olympus"',
        ),
        (
            "type: cost-aware\npeak_start: 9\npeak_end: 9",
            "9:19: {} the peak from 9 to 9 is empty",
        ),
        (
            "type: cost-aware\npeak_start: -1",
            '9:19: {} peak_start must be a whole number from 0 to 24, not "-1"',
        ),
        ("type: scheduled\nschedule: []", "9:17: {} schedule must not be empty"),
        ("type: scheduled", "7:5: {} schedule is required"),
        (
            "type: predictive\nlookback_window: 1",
            '9:24: {} lookback_window must be a whole number from 2 to 100000, not "1"',
        ),
        (
            "type: predictive\ngrowth_factor: 0",
            '9:22: {} growth_factor must be a number from 0.01 to 100, not "0"',
        ),
        (
            "type: predictive\ngrowth_factor: .nan",
            '9:22: {} growth_factor must be a number from 0.01 to 100, not ".nan"',
        ),
        (
            "type: predictive\nfallback: {type: wish}",
            "9:24: {} unknown autoscaler type: wish",
        ),
        ("type: composite", "7:5: {} autoscalers is required"),
        (
            "type: composite\nmode: median\nautoscalers: [{type: queue}]",
            '9:13: {} mode must be max, min or avg, not "median"',
        ),
        (
            "type: composite\nautoscalers: [{type: queue}, {type: queue, scale_up_at: 3}]",
            '9:50: {} unknown key "scale_up_at"',
        ),
    ],
)
def test_autoscaling_that_cannot_work_is_refused(block: str, expected: str) -> None:
    indented = "".join(f"  {line}\n" for line in block.splitlines())

    found = problems(in_pool("max_nodes: 1\nautoscaling:\n" + indented))

    assert found == [expected.format('pool "p":')]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            "scale_down_after: -5m",
            '6:23: {} scale_down_after must be a duration, zero or more, not "-5m"',
        ),
        ("cooldown: -5m", '6:15: {} cooldown must be a duration, zero or more, not "-5m"'),
        ("cooldown: 300", '6:15: {} cooldown must be a duration, zero or more, not "300"'),
        ("boot_deadline: 0s", '6:20: {} boot_deadline must be a duration above zero, not "0s"'),
        (
            "drain_timeout: soon",
            '6:20: {} drain_timeout must be a duration, zero or more, not "soon"',
        ),
        ("gang_hold: 0s", '6:16: {} gang_hold must be a duration above zero, not "0s"'),
        ("gang: 2", "6:11: {} gang (2) cannot exceed max_nodes (1)"),
        ("cooldown: [1m]", "6:15: {} cooldown must be a duration, zero or more, not a list"),
        ("cooldown:", "6:14: {} cooldown must be a duration, zero or more, not nothing"),
        (
            "health: {auto_replace: yes}",
            '6:28: {} auto_replace must be true or false, not "yes"',
        ),
        (
            'health: {auto_replace: "true"}',
            '6:28: {} auto_replace must be true or false, not the text "true"',
        ),
        ("health: {auto_replace: True}", '6:28: {} auto_replace must be true or false, not "True"'),
        (
            "health: {unhealthy_after: 0}",
            '6:31: {} unhealthy_after must be a whole number from 1 to 10, not "0"',
        ),
        (
            "health: {unhealthy_after: 12}",
            '6:31: {} unhealthy_after must be a whole number from 1 to 10, not "12"',
        ),
        ("health: on", '6:13: {} health must be a mapping, not "on"'),
        ("labels: {a: true}", '6:17: {} labels.a must be text, not "true"'),
        ("labels: {a: }", "6:17: {} labels.a must be text, not nothing"),
        ("labels: [a]", "6:13: {} labels must be a mapping, not a list"),
        ("zones: us-east-1a", '6:12: {} zones must be a list, not "us-east-1a"'),
        ("min_nodes: 1.0", '6:16: {} min_nodes must be a whole number, at most 100000, not "1.0"'),
        ("min_nodes: 010", '6:16: {} min_nodes must be a whole number, at most 100000, not "010"'),
        (
            "min_nodes: 0x10",
            '6:16: {} min_nodes must be a whole number, at most 100000, not "0x10"',
        ),
        (
            'min_nodes: "1"',
            '6:16: {} min_nodes must be a whole number, at most 100000, not the text "1"',
        ),
        ("region: no", '6:13: {} region must be text, not "no"'),
        ("colour: blue", '6:5: {} unknown key "colour"'),
    ],
)
def test_values_of_the_wrong_type_are_refused_at_their_place(lines: str, expected: str) -> None:
    assert problems(in_pool(lines + "\nmax_nodes: 1")) == [expected.format('pool "p":')]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "server: {heartbeat_interval: 0s}\n",
            '1:30: heartbeat_interval must be a duration above zero, not "0s"',
        ),
        (
            "server: {heartbeat_interval: 30s, heartbeat_timeout: 30s}\n",
            "1:54: heartbeat_timeout must be longer than heartbeat_interval, "
            "or every node counts as silent",
        ),
        (
            "server: {retention: {events: 29d}}\n",
            "1:30: events are kept for at least 32 days, because budgets and policies read them",
        ),
        (
            "server: {peer_probes: {timeout: 31s}}\n",
            "1:33: a probe takes at most 30 seconds",
        ),
        (
            "server: {peer_probes: {port: 0}}\n",
            '1:30: port must be a whole number from 1 to 65535, not "0"',
        ),
        ("server: {address: 50051}\n", '1:19: address must be an address, not "50051"'),
        ('server: {address: ":70000"}\n', '1:19: address must be an address, not ":70000"'),
        (
            'server: {grpc_address: ":50051"}\n',
            "1:24: address and grpc_address are both :50051",
        ),
        (
            "server: {external_address: navarch}\n",
            '1:28: external_address must be a URL, not "navarch"',
        ),
        ("server: {auth_token: ''}\n", "1:22: auth_token must not be empty"),
        (
            "server: {auth_token: 'a b'}\n",
            "1:22: auth_token holds a space or a character that cannot be sent",
        ),
        ("server: {notifier: {type: pager}}\n", '1:27: type must be noop or webhook, not "pager"'),
        (
            "server: {notifier: {type: webhook}}\n",
            "1:27: a notifier of type webhook needs a webhook block",
        ),
        (
            "server: {notifier: {type: webhook, webhook: {timeout: 1s}}}\n",
            "1:36: the webhook has no URL to call",
        ),
        ("server: {grpc_port: 1}\n", '1:10: unknown key "grpc_port"'),
        ("servers: {}\n", '1:1: unknown key "servers"'),
    ],
)
def test_server_settings_that_cannot_work_are_refused(text: str, expected: str) -> None:
    assert problems(text + PROVIDERS + POOL) == [expected]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            "type: fake, gpu_count: 0",
            '1:40: {} gpu_count must be a whole number from 1 to 1024, not "0"',
        ),
        ("type: fake, boot_min: 9s, boot_max: 3s", "1:39: {} boot_min cannot exceed boot_max"),
        (
            "type: fake, bad_boot_share: 10",
            '1:45: {} bad_boot_share must be a number from 0 to 1, not "10"',
        ),
        (
            "type: fake, prices: {x: -1}",
            '1:41: {} prices.x must be an amount of money, not "-1"',
        ),
        ("type: gcp", "1:13: {} project is required"),
        ("type: aws, project: a", '1:28: {} unknown key "project"'),
        ("type: baremetal", "1:13: {} hosts or inventory is required"),
        (
            "type: baremetal, hosts: [{name: a, address: x}]",
            "1:42: {} host_key is required",
        ),
        (
            "type: baremetal, hosts: [{name: a, address: x, host_key: k}, "
            "{name: a, address: y, host_key: k}]",
            '1:85: {} the host "a" is listed twice',
        ),
        (
            "type: lambda, api_key: a, api_key_file: b",
            "1:43: {} cannot specify both api_key and api_key_file",
        ),
        (
            "type: lambda, api_key_env: $KEY",
            '1:44: {} api_key_env must be the name of an environment variable, not "$KEY"',
        ),
    ],
)
def test_provider_settings_that_cannot_work_are_refused(settings: str, expected: str) -> None:
    assert problems(f"providers: {{c: {{{settings}}}}}\n{POOL}") == [
        expected.format('provider "c":')
    ]


def test_a_provider_is_listed_only_once_in_a_pool() -> None:
    text = (
        PROVIDERS
        + """\
pools:
  p:
    providers:
      - {name: c, weight: 0}
      - name: c
      - name: c
    instance_type: x
    max_nodes: 1
"""
    )
    assert problems(text) == [
        '5:27: pool "p": weight must be a whole number from 1 to 1000000, not "0"'
    ]
    assert problems(text.replace("weight: 0", "weight: 1")) == [
        '6:15: pool "p": the provider "c" is listed twice',
        '7:15: pool "p": the provider "c" is listed twice',
    ]


def test_a_list_of_pools_is_refused_with_the_right_form() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config("pools:\n  - name: training\n")

    (problem,) = caught.value.problems
    assert problem.message == "pools must be a mapping from name to settings, not a list"
    assert problem.remedy == "write the pool's name as a key, and its settings below"


@pytest.mark.parametrize("name", ["-p", "a/b", "a b", "p" * 51, "ü"])
def test_a_pool_name_that_is_no_node_name_is_refused(name: str) -> None:
    text = PROVIDERS + f"pools: {{'{name}': {{provider: c, instance_type: x, max_nodes: 1}}}}"

    (found,) = problems(text)

    assert found.endswith("this is not a valid name for a pool")


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ("max_node", 'did you mean "max_nodes"?'),
        ("Min-Nodes", 'did you mean "min_nodes"?'),
        ("autoscale", 'did you mean "autoscaling"?'),
        ("cooldown_period", 'write "cooldown"'),
        ("scaling", 'write "autoscaling"'),
    ],
)
def test_an_unknown_key_is_refused_with_a_suggestion(key: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(in_pool(f"max_nodes: 1\n{key}: 1"))

    assert [problem.remedy for problem in caught.value.problems] == [remedy]


def test_a_key_of_another_type_is_refused_with_the_name_of_that_type() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config("providers: {c: {type: aws, project: a}}\n" + POOL)

    assert caught.value.problems[0].remedy == "that is a key of type gcp"


def test_one_mistake_is_not_reported_twice() -> None:
    text = in_pool("min_nodes: many\nmax_nodes: 1")

    assert problems(text) == [
        '6:16: pool "p": min_nodes must be a whole number, at most 100000, not "many"'
    ]


def test_a_mistake_in_a_provider_does_not_make_it_unknown_to_its_pools() -> None:
    assert problems("providers: {c: {type: fake, gpu_count: x}}\n" + POOL) == [
        '1:40: provider "c": gpu_count must be a whole number from 1 to 1024, not "x"'
    ]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("flex_start: true", '1:52: provider "c": flex_start needs max_run'),
        (
            "flex_start: true, max_run: 169h",
            '1:67: provider "c": flex-start machines run for at most 7 days',
        ),
    ],
)
def test_flex_start_needs_a_max_run_within_bounds(keys: str, expected: str) -> None:
    text = f"providers: {{c: {{type: gcp, project: p, {keys}}}}}\n" + POOL
    assert problems(text) == [expected]


@pytest.mark.parametrize("pools", ["", "pools: {}\n", "pools:\n"])
def test_a_file_with_providers_needs_no_pools(pools: str) -> None:
    config = parse_config("providers: {c: {type: fake}}\n" + pools)

    assert list(config.providers) == ["c"]
    assert dict(config.pools) == {}
