"""The Docker provider: containers as machines, without a client library."""

from navarch.providers.docker.provider import Containers, Docker, Engine, engine_at

__all__ = ["Containers", "Docker", "Engine", "engine_at"]
