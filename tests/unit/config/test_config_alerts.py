"""The `alerts` block: what it accepts, refuses and never shows."""

from pathlib import Path

import pytest

from navarch.app.alerts import AlertChannels
from navarch.clock import SystemClock
from navarch.config import (
    Config,
    ConfigError,
    compare,
    load_config,
    parse_config,
    render_config,
)
from navarch.config.alerts import LOG, WebhookChannelConfig
from navarch.core.alert import Severity

FLEET = "providers: {local: {type: fake}}\n"
SECRET = "s3cret-and-long"
HOOK = "{type: webhook, url: 'https://h.example/x', secret: '${KEY}', headers: {A: '${KEY}'}}"


MAIL = """{channels: {x: {type: email, host: mx.example.com, sender: n@example.com,
  recipients: [kim@example.com], username: navarch, password: s3cret-and-long"""


def alerts(text: str) -> Config:
    return parse_config(f"{FLEET}alerts: {text}\n", environment={"KEY": SECRET})


def test_without_a_block_only_the_log_receives_alerts() -> None:
    channels = AlertChannels(SystemClock())
    assert list(channels.channels) == [LOG]
    (route,) = channels.routing.routes
    assert (route.channels, route.severities) == ((LOG,), ())


def routes(text: str) -> dict[str, list[tuple[Severity, ...]]]:
    """Return the severities that each channel receives."""
    channels = AlertChannels(SystemClock())
    channels.become(alerts(text).alerts)
    found: dict[str, list[tuple[Severity, ...]]] = {}
    for route in channels.routing.routes:
        for name in route.channels:
            found.setdefault(name, []).append(route.severities)
    channels.close()
    return found


def test_without_routes_every_channel_receives_warnings_and_critical_alerts() -> None:
    both = (Severity.WARNING, Severity.CRITICAL)
    assert routes(f"{{channels: {{a: {HOOK}, b: {HOOK}}}}}") == {
        LOG: [()],
        "a": [both],
        "b": [both],
    }


def test_a_route_may_name_the_log() -> None:
    found = routes("{routes: [{channels: [log], severities: [critical]}]}")
    assert found == {LOG: [(Severity.CRITICAL,)]}


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("{channels: {x: {type: webhok, url: 'https://h/x'}}}", "webhok", "webhook"),
        ("{channels: {x: {type: webhook}}}", "url is required", "url"),
        ("{channels: {x: {type: webhook, url: nowhere}}}", "must be a URL", "https://"),
        ("{channels: {X.1: {type: webhook, url: 'https://h/x'}}}", "name", "lower-case"),
        ("{channels: {log: {type: webhook, url: 'https://h/x'}}}", "exists already", "another"),
        ("{routes: [{channels: [opps]}]}", 'no channel "opps"', "channels: log"),
        ("{routes: [{channels: []}]}", "must not be empty", "add an item"),
        ("{routes: [{channels: [log], severities: [fatal]}]}", "fatal", "critical"),
        ("{routes: [{channels: [log], causes: [node-falt]}]}", "node-falt", "node-fault"),
        ("{group_wait: 30}", "duration", "30s"),
        ("{channels: {x: {type: slack}}}", "webhook_url is required", "webhook_url_file"),
        (
            "{channels: {x: {type: slack, webhook_url: s3cret-and-long}}}",
            "must be a URL",
            "https://",
        ),
        ("{channels: {x: {type: pagerduty}}}", "routing_key is required", "routing_key_file"),
        (
            "{channels: {x: {type: alertmanager, url: 'http://am:9093', repeat: 2h}}}",
            "resolves alerts that are not repeated",
            "repeat: 5m",
        ),
        (MAIL.replace("kim@example.com", "kim") + "}}}", "mail address", "user@example.com"),
        (MAIL.partition(", password")[0] + "}}}", "belong together", "set both"),
        (MAIL + ", security: none}}}", "without encryption", "starttls"),
    ],
)
def test_a_mistake_is_named_with_its_remedy(text: str, message: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as caught:
        alerts(text)
    assert message in str(caught.value)
    assert remedy in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_channel_that_no_route_names_is_a_warning() -> None:
    config = alerts(f"{{channels: {{x: {HOOK}}}, routes: [{{channels: [log]}}]}}")
    assert [warning.message for warning in config.warnings] == ['no route leads to channel "x"']


def test_secrets_are_not_shown() -> None:
    config = alerts(f"{{channels: {{x: {HOOK}}}}}")
    assert SECRET not in render_config(config) + repr(config)
    other = parse_config(
        f"{FLEET}alerts: {{channels: {{x: {HOOK}}}}}\n", environment={"KEY": SECRET + "2"}
    )
    change = str(compare(config, other))
    assert "alerts have changed" in change
    assert SECRET not in change


def test_a_secret_can_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(SECRET + "\n")
    (tmp_path / "key").chmod(0o600)
    file = tmp_path / "navarch.yaml"
    hook = "{type: webhook, url: 'https://h/x', secret_file: key}"
    file.write_text(f"{FLEET}alerts: {{channels: {{x: {hook}}}}}")
    channel = load_config(file, environment={}).alerts.channels["x"]
    assert isinstance(channel, WebhookChannelConfig)
    assert channel.secret is not None
    assert channel.secret.reveal() == SECRET


def test_a_reload_keeps_channels_that_are_unchanged() -> None:
    channels = AlertChannels(SystemClock())
    first = alerts(f"{{channels: {{a: {HOOK}, b: {HOOK}}}}}").alerts
    channels.become(first)
    before = dict(channels.channels)
    changed = HOOK.replace("h.example/x", "h.example/y")
    channels.become(alerts(f"{{channels: {{a: {HOOK}, c: {changed}, b: {changed}}}}}").alerts)
    assert channels.channels["a"] is before["a"]
    assert channels.channels["b"] is not before["b"]
    assert list(channels.channels) == ["a", "c", "b", LOG]
    channels.close()
