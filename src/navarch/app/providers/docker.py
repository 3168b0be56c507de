"""The Docker provider, as a configuration describes it."""

import os
from pathlib import Path

from navarch.app.addresses import StartError
from navarch.app.providers.building import Surroundings
from navarch.config.provider import DockerConfig, ProviderConfig
from navarch.core.errors import InvalidError
from navarch.ports.provider import Provider
from navarch.providers.docker import Containers, Docker, engine_at
from navarch.providers.docker.engine import DEFAULT_HOST


def build(config: ProviderConfig, surroundings: Surroundings) -> Provider:
    """Return the provider; the engine is not spoken to before a machine is asked for."""
    assert isinstance(config, DockerConfig), config
    host = config.host or os.environ.get("DOCKER_HOST") or DEFAULT_HOST
    try:
        engine = engine_at(host)
    except InvalidError as error:
        raise StartError(f"provider {config.name!r}: {error}") from error
    key = {"PUBLIC_KEY": _public_key(config)} if config.ssh_public_key_path else {}
    containers = Containers(
        image=config.image,
        network=config.network,
        command=config.command,
        simulated_gpus=config.gpu_count,
        real_gpus=config.real_gpus,
        environment=lambda request: {
            **surroundings.guide.environment(request, config.name),
            **key,
        },
    )
    return Docker(engine, containers, name=config.name)


def _public_key(config: DockerConfig) -> str:
    path = config.ssh_public_key_path or ""
    try:
        return Path(path).expanduser().read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StartError(f"provider {config.name!r}: ssh_public_key_path: {error}") from error
