"""Containers as machines: the Docker Engine API, and nothing to install."""

from navarch.providers.docker.engine import Engine, engine_at
from navarch.providers.docker.provider import Containers, Docker

__all__ = ["Containers", "Docker", "Engine", "engine_at"]
