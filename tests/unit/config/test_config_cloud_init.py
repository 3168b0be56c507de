"""A pool at a cloud is refused without an address at which its machines reach the server.

In the texts `@` marks the character that the message must point at.
"""

from pathlib import Path

import pytest
from click.testing import CliRunner

from navarch.cli.main import navarch
from navarch.config import ConfigError, parse_config

CLOUDS = {
    "aws": "{type: aws, region: us-east-1}",
    "gcp": "{type: gcp, project: p}",
    "lambda": "{type: lambda, api_key: k, ssh_key: ops}",
}
LOCAL = {
    "fake": "{type: fake}",
    "docker": "{type: docker}",
    "baremetal": "{type: baremetal, hosts: [{name: a, address: b, host_key: k}]}",
}
UNREACHABLE = [
    "http://127.0.0.1:50051",
    "http://127.8.9.1:50051",
    "http://127.1:50051",
    "http://2130706433:50051",
    "https://localhost:50051",
    "https://LOCALHOST.:50051",
    "https://navarch.localhost",
    "http://localhost.localdomain:50051",
    "http://[::1]:50051",
    "http://[::ffff:127.0.0.1]:50051",
    "http://0.0.0.0:50051",
    "http://0:50051",
    "http://[::]:50051",
]


def a_file(provider: str, *, server: str = "", pool: str = "") -> str:
    return (
        f"server: {{{server}}}\n"
        f"providers:\n  home: {{type: fake}}\n  c: {provider}\n"
        f"pools:\n  p:\n    provider: c\n    instance_type: x\n    max_nodes: 1\n"
        "    region: us-central1\n"
        f"    cloud_init: true\n{pool}"
    )


def refused(text: str) -> tuple[str, str]:
    """Return the message and remedy of the only problem, which must be at the `@` of the text."""
    before = text[: text.index("@")]
    with pytest.raises(ConfigError) as caught:
        parse_config(text.replace("@", "", 1), source="f")
    (problem,) = caught.value.problems
    assert problem.place is not None
    marked = before.count("\n") + 1, len(before) - before.rfind("\n")
    assert (problem.place.line, problem.place.column) == marked
    return problem.message, problem.remedy


@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize("url", UNREACHABLE)
def test_a_local_external_address_is_refused(cloud: str, url: str) -> None:
    message, remedy = refused(a_file(CLOUDS[cloud], server=f'external_address: @"{url}"'))
    assert message == (
        f'pool "p": machines of c cannot reach the server at {url}: there, that address is the '
        "machine itself"
    )
    assert "https://navarch.example.com:50051" in remedy


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_missing_external_address_is_refused(cloud: str) -> None:
    text = a_file(CLOUDS[cloud]).replace("  p:\n", "  @p:\n")
    message, remedy = refused(text)
    assert message == (
        'pool "p": machines of c cannot reach the server: no address is set for them'
    )
    assert "server.external_address" in remedy
    assert "navarch serve --external-address" in remedy


def test_a_listen_address_does_not_replace_an_external_address() -> None:
    text = a_file(CLOUDS["aws"], server='address: ":50051", auth_token: sixteen-or-more-x')
    refused(text.replace("  p:\n", "  @p:\n"))


def test_a_local_address_of_the_pool_is_refused_despite_a_good_external_address() -> None:
    text = a_file(
        CLOUDS["aws"],
        server="external_address: https://navarch.example.com",
        pool='    control_plane_address: @"http://localhost:50051"\n',
    )
    assert "http://localhost:50051" in refused(text)[0]


def test_a_good_address_of_the_pool_needs_no_external_address() -> None:
    for server in ("", "external_address: http://localhost:50051"):
        text = a_file(
            CLOUDS["aws"], server=server, pool='    control_plane_address: "http://10.0.0.5:1"\n'
        )
        assert parse_config(text).pools["p"].cloud_init


@pytest.mark.parametrize(
    "url",
    [
        "https://navarch.example.com:50051",
        "http://10.0.0.5:50051",
        "http://[2001:db8::1]:50051",
        "http://localhosts.example.com",
        "http://control-plane:50051",
    ],
)
def test_an_address_that_other_machines_can_reach_is_accepted(url: str) -> None:
    text = a_file(CLOUDS["aws"], server=f'external_address: "{url}"')
    assert parse_config(text).server.external_address == url


@pytest.mark.parametrize("kind", LOCAL)
@pytest.mark.parametrize("server", ["", "external_address: http://localhost:50051"])
def test_cloud_init_outside_the_clouds_accepts_a_local_address(kind: str, server: str) -> None:
    assert parse_config(a_file(LOCAL[kind], server=server)).pools["p"].cloud_init


@pytest.mark.parametrize(
    "setup",
    [
        "agent: image",
        "agent: ssh\n    setup_commands: [start-agent]\n    ssh_private_key_path: /key",
        "setup_commands: [start-agent]\n    ssh_private_key_path: /key",
    ],
)
def test_a_pool_needs_no_address_if_navarch_passes_none_to_its_machines(setup: str) -> None:
    text = a_file(CLOUDS["aws"]).replace("cloud_init: true", setup)
    assert parse_config(text).server.external_address is None


@pytest.mark.parametrize(
    "setup",
    [
        "labels: {}",
        "agent: cloud-init",
        "setup_commands: ['start {{.ControlPlane}}']\n    ssh_private_key_path: /key",
    ],
)
def test_cloud_init_is_the_default_at_clouds_and_needs_an_address(setup: str) -> None:
    text = a_file(CLOUDS["aws"]).replace("cloud_init: true", setup)
    refused(text.replace("  p:\n", "  @p:\n"))


def test_a_private_address_is_a_warning() -> None:
    text = a_file(CLOUDS["aws"], server="external_address: http://10.0.0.5:50051")
    (warning,) = parse_config(text).warnings
    assert warning.message == (
        'pool "p": machines of c reach the private address http://10.0.0.5:50051 only inside that '
        "network"
    )


@pytest.mark.parametrize(
    ("setup", "message"),
    [
        ("agent: ssh\n    cloud_init: @true", "agent is ssh, and cloud_init is true"),
        ("agent: @ssh", "agent: ssh needs setup_commands that start the agent"),
        ("agent: image\n    @setup_commands: [x]", "setup_commands do not run with agent: image"),
    ],
)
def test_keys_that_contradict_each_other_are_refused(setup: str, message: str) -> None:
    text = a_file(LOCAL["fake"]).replace("cloud_init: true", setup)
    assert refused(text)[0] == f'pool "p": {message}'


def test_one_cloud_among_several_providers_needs_an_external_address() -> None:
    text = a_file(CLOUDS["aws"]).replace("provider: c", "providers: [{name: home}, {name: c}]")
    refused(text.replace("  p:\n", "  @p:\n"))


def test_a_bad_external_address_of_several_pools_is_reported_once() -> None:
    text = a_file(CLOUDS["aws"], server='external_address: @"http://localhost:1"')
    text += "  q: {provider: c, instance_type: x, max_nodes: 1, cloud_init: true}\n"
    assert refused(text)[0].startswith('pool "p": ')


def test_config_validate_and_serve_report_the_line(tmp_path: Path) -> None:
    file = tmp_path / "navarch.yaml"
    file.write_text(a_file(CLOUDS["aws"], server='external_address: "http://localhost:50051"'))
    serve = ["serve", "--config", str(file), "--data-dir", str(tmp_path / "state")]
    for words in (["config", "validate", str(file)], serve):
        ran = CliRunner().invoke(navarch, words)
        assert ran.exit_code != 0
        assert f"{file}:1:28: " in ran.output
        assert "cannot reach the server at http://localhost:50051" in ran.output
