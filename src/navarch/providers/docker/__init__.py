"""The Docker provider: containers as machines, without a client library."""

from navarch.providers.docker.engine import Engine, engine_at
from navarch.providers.docker.provider import Containers, Docker

__all__ = ["Containers", "Docker", "Engine", "engine_at"]
