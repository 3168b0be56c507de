"""The text that `navarch serve` prints on start."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from navarch.app import agent_bundle
from navarch.app.server import Following
from navarch.app.servers import Address
from navarch.catalogue.machines import all_machines
from navarch.cli.serve import refused_urls, render_banner, render_following, without_agents
from navarch.config import parse_config
from navarch.core.version import VERSION

NO_PROVIDERS: Mapping[str, str] = {}


def banner(
    *,
    providers: Mapping[str, str] = NO_PROVIDERS,
    pools: Sequence[str] = (),
    guarded: bool = True,
    http: str = "127.0.0.1",
    port: int = 50051,
    grpc: str = "127.0.0.1",
    tls: bool = False,
    replicated: bool = False,
) -> str:
    running: Any = SimpleNamespace(
        http=Address(host=http, port=port),
        grpc=Address(host=grpc, port=50052),
        guarded=guarded,
        tls=tls,
        nodes=0,
        place="state",
        providers=providers,
        pools=pools,
        replicated=replicated,
    )
    return render_banner(running)


def line_of(text: str, name: str) -> str:
    (found,) = (line for line in text.splitlines() if line.split()[:1] == [name])
    return found.split(maxsplit=1)[1]


def test_the_banner_of_a_server_without_providers_names_both_ways_to_add_them() -> None:
    text = banner()

    assert "navarch up " not in text
    assert "navarch config set-credentials" in text
    assert "--config FILE" in text


def test_the_banner_of_a_simulated_cloud_suggests_a_fault() -> None:
    text = banner(providers={"fake": "fake"})

    assert "  navarch up --gpus 16 --type h100 --name demo --wait" in text.splitlines()
    assert "  navarch sim inject demo-0 --xid 79" in text.splitlines()


def test_the_banner_keeps_the_suggested_machines_in_the_simulated_cloud() -> None:
    text = banner(providers={"lambda": "lambda", "lab": "fake"})

    assert "  navarch up --gpus 16 --type h100 --name demo --provider lab --wait" in text


@pytest.mark.parametrize(
    ("providers", "at"),
    [
        ({"aws": "aws", "gcp": "gcp", "lambda": "lambda"}, ("aws", "gcp", "lambda")),
        ({"east": "aws"}, ("aws",)),
        ({"lambda": "lambda"}, ("lambda",)),
    ],
)
def test_the_banner_of_a_real_cloud_suggests_its_cheapest_machine_with_the_price(
    providers: Mapping[str, str], at: tuple[str, ...]
) -> None:
    text = banner(providers=providers)

    (up,) = (line for line in text.splitlines() if line.startswith("  navarch up "))
    cheapest = min(
        machine.usd_per_hour
        for machine in all_machines()
        if machine.provider in at and machine.usd_per_hour
    )
    assert f"${cheapest:.2f}/h" in up
    assert "  navarch offers --mine" in text.splitlines()
    assert "inject" not in text


@pytest.mark.parametrize("providers", [{"aws": "aws"}, {"racks": "baremetal"}])
def test_the_banner_of_a_server_with_pools_suggests_no_purchase(
    providers: Mapping[str, str],
) -> None:
    text = banner(providers=providers, pools=["training"])

    assert "  navarch pool get training" in text.splitlines()
    assert "navarch up " not in text


def test_the_banner_names_the_clouds() -> None:
    text = banner(providers={"lambda": "lambda", "east": "aws"})

    assert line_of(text, "clouds") == "east (aws), lambda"


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "127.0.0.1:{}"),
        ("::1", "[::1]:{}"),
        ("10.0.0.5", "10.0.0.5:{}"),
        ("navarch.internal", "navarch.internal:{}"),
        ("0.0.0.0", "0.0.0.0:{} (all interfaces)"),
        ("::", "[::]:{} (all interfaces)"),
    ],
)
def test_the_banner_shows_the_addresses_and_that_they_are_clear_text(host: str, shown: str) -> None:
    plain = "127.0.0.1:{}"
    both = banner(http=host, grpc=host)
    only_http = banner(http=host)

    assert line_of(both, "HTTP") == f"http://{shown.format(50051)}, clear text (no TLS)"
    assert line_of(both, "gRPC") == f"grpc://{shown.format(50052)}, clear text (no TLS)"
    assert line_of(only_http, "gRPC") == f"grpc://{plain.format(50052)}, clear text (no TLS)"


def test_the_banner_of_a_server_with_a_token_shows_that_it_is_required() -> None:
    access = line_of(banner(guarded=True), "access")

    assert access.startswith("token required")
    assert "/metrics" in access


def test_the_banner_of_a_server_without_a_token_shows_that_it_is_local_only() -> None:
    access = line_of(banner(guarded=False), "access")

    assert access.startswith("local connections only")
    assert "NAVARCH_AUTH_TOKEN" in access


@pytest.mark.parametrize("guarded", [True, False])
def test_the_banner_fits_a_terminal_of_80_columns(guarded: bool) -> None:
    assert max(map(len, banner(guarded=guarded, http="0.0.0.0").splitlines())) <= 80


def test_the_banner_of_a_server_with_tls_names_it_and_suggests_commands_that_use_it() -> None:
    text = banner(tls=True)

    assert line_of(text, "HTTP").startswith("https://")
    assert line_of(text, "gRPC").startswith("grpcs://")
    assert "clear text" not in text
    assert "  navarch -s https://127.0.0.1:50051 status" in text.splitlines()


def test_the_suggested_commands_reach_a_server_on_all_interfaces() -> None:
    text = banner(http="0.0.0.0", port=51200)

    assert "  navarch -s http://127.0.0.1:51200 status" in text.splitlines()


@pytest.mark.parametrize(
    ("server", "pool", "warned"),
    [
        ("", "", []),
        ("external_address: http://127.0.0.1:50051", "", []),
        ("external_address: http://localhost", "", []),
        (
            "external_address: https://navarch.example.com",
            "",
            ["server.external_address https://navarch.example.com"],
        ),
        (
            "",
            "control_plane_address: http://10.0.0.5:50051",
            ["pools.training.control_plane_address http://10.0.0.5:50051"],
        ),
        ("auth_token: s3cret-s3cret-s3cret, external_address: https://navarch.example.com", "", []),
    ],
)
def test_an_agent_url_that_a_server_without_a_token_refuses_causes_a_warning(
    server: str, pool: str, warned: list[str]
) -> None:
    config = parse_config(
        f"server: {{{server}}}\n"
        "providers: {fake: {type: fake}}\n"
        "pools: {training: {provider: fake, instance_type: h100-8x, max_nodes: 1, "
        f"{pool}}}}}\n",
        environment={},
    )

    text = list(refused_urls(config))

    assert [line.partition(" is refused")[0] for line in text] == warned
    assert all("NAVARCH_AUTH_TOKEN" in line for line in text)


UBUNTU = "cpython-312-x86_64-linux-gnu"


def test_a_cloud_whose_machines_cannot_reach_the_server_causes_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agent_bundle, "get_config_var", lambda _: UBUNTU)
    text = "providers: {lab: {type: gcp, project: p}, fake: {type: fake}}\n"
    (warning,) = without_agents(parse_config(text, environment={}))
    assert warning.startswith(
        "machines of lab cannot reach the server: no address is set for them, so new pools there "
        "are refused; set server.external_address"
    )
    text += "server: {external_address: https://n.com}\n"
    assert not list(without_agents(parse_config(text, environment={})))


def test_a_server_whose_python_differs_from_that_of_default_images_warns_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agent_bundle, "get_config_var", lambda _: "cpython-399-x86_64-linux-gnu")
    text = "server: {external_address: https://n.com}\nproviders: {lab: {type: gcp, project: p}}\n"
    (warning,) = without_agents(parse_config(text, environment={}))
    assert warning.startswith(
        "new pools are refused: no agent would start on machines of lab: their image has Python "
        "3.12 (x86_64), and this server has the agent for Python 3.99 (x86_64) only"
    )
    allowed = text.replace("server: {", "server: {agent_index: true, ")
    assert not list(without_agents(parse_config(allowed, environment={})))
    assert not list(without_agents(parse_config("providers: {f: {type: fake}}", environment={})))


def test_the_banner_of_the_leader_of_a_database_says_so() -> None:
    assert banner(replicated=True).startswith(f"navarch {VERSION} is serving and leads\n")
    assert banner().startswith(f"navarch {VERSION} is serving\n")


@pytest.mark.parametrize(
    ("leader", "words"),
    [
        ("10.0.0.7:50051", "is a replica of 10.0.0.7:50051; leads if it ends"),
        (None, "is a replica of another server on postgresql://db/navarch; leads if it ends"),
    ],
)
def test_the_banner_of_a_replica_names_the_leader(leader: str | None, words: str) -> None:
    shown = render_following(
        Following(
            http=Address(host="10.0.0.8", port=50051),
            grpc=Address(host="10.0.0.8", port=50052),
            guarded=True,
            tls=True,
            place="postgresql://db/navarch",
            leader=leader,
        )
    )
    assert shown.splitlines()[0] == f"navarch {VERSION} {words}"
    assert "https://10.0.0.8:50051, TLS" in shown
