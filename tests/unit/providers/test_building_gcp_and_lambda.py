"""Building the Lambda and Google Cloud providers from their configuration."""

import asyncio
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.lambda_server import KEY, local_lambda

from navarch.app.providers import (
    ProviderContext,
    build_provider,
    gcp_settings,
    lambda_limits_of,
    renew_provider,
)
from navarch.app.servers import StartError
from navarch.catalogue.images import GCP_IMAGE
from navarch.clock import SystemClock, SystemEntropy
from navarch.config.provider import GcpConfig, LambdaConfig
from navarch.config.secret import Secret
from navarch.core.errors import CredentialError
from navarch.providers.gcp.provider import GcpCloud
from navarch.providers.gcp.translation import NETWORK


def context(path: Path, closing: ExitStack) -> ProviderContext:
    return ProviderContext(
        clock=SystemClock(), entropy=SystemEntropy(), data_dir=path, closing=closing
    )


def test_both_providers_are_built_without_a_call(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:9"
    with ExitStack() as closing:
        here = context(tmp_path, closing)
        secret = Secret("key")
        account = LambdaConfig(name="lambda", api_key=secret, endpoint=nowhere)
        assert build_provider(account, here).name == "lambda"
        project = GcpConfig(name="gcp", project="p", endpoint=nowhere)
        assert build_provider(project, here).name == "gcp"


def test_prices_are_read_from_google_unless_the_endpoint_is_another(tmp_path: Path) -> None:
    def where(endpoint: str | None = None, prices: str | None = None) -> str | None:
        with ExitStack() as closing:
            config = GcpConfig(name="gcp", project="p", endpoint=endpoint, billing_endpoint=prices)
            built = build_provider(config, context(tmp_path, closing))
            assert isinstance(built, GcpCloud)
            return None if built._prices is None else built._prices._endpoint

    local = "http://127.0.0.1:9"
    assert where() == "https://cloudbilling.googleapis.com"
    assert where(endpoint=local) is None
    assert where(endpoint=local, prices=f"{local}/") == local


def test_an_account_without_a_key_does_not_start(tmp_path: Path) -> None:
    with ExitStack() as closing, pytest.raises(StartError, match="LAMBDA_API_KEY environment"):
        build_provider(LambdaConfig(name="lambda"), context(tmp_path, closing))


def test_providers_with_one_key_share_rate_limits() -> None:
    mine = lambda_limits_of("https://cloud.lambda.ai/api/v1", "key", 0.0)
    assert lambda_limits_of("https://cloud.lambda.ai/api/v1", "key", 5.0) is mine
    assert lambda_limits_of("https://cloud.lambda.ai/api/v1", "another", 0.0) is not mine


def test_omitted_settings_have_defaults() -> None:
    settings = gcp_settings(GcpConfig(name="gcp", project="p"))
    assert (settings.image, settings.network, settings.zone) == (
        GCP_IMAGE,
        NETWORK,
        "us-central1-a",
    )
    config = GcpConfig(
        name="gcp",
        project="p",
        image="projects/p/global/images/gpu",
        network="vpc",
        flex_start=True,
        max_run=timedelta(days=1),
    )
    settings = gcp_settings(config)
    assert (settings.image, settings.network, settings.max_run) == (
        "projects/p/global/images/gpu",
        "vpc",
        timedelta(days=1),
    )


def test_a_new_key_is_used_without_a_restart(tmp_path: Path) -> None:
    old = LambdaConfig(name="lambda", api_key=Secret("an old key"))
    with ExitStack() as closing, local_lambda() as local:
        here = context(tmp_path, closing)
        provider = build_provider(replace(old, endpoint=local.url), here)
        with pytest.raises(CredentialError):
            asyncio.run(provider.list_instances())
        renew_provider(provider, replace(old, api_key=Secret(KEY)))
        local.paced = False
        assert list(asyncio.run(provider.list_instances())) == []


def test_a_provider_without_anything_to_renew_is_left_alone(tmp_path: Path) -> None:
    project = GcpConfig(name="gcp", project="p", endpoint="http://127.0.0.1:9")
    with ExitStack() as closing:
        renew_provider(build_provider(project, context(tmp_path, closing)), project)
