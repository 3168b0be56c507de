"""Configuration: YAML files to typed values, with errors that name the place and the remedy."""

from navarch.config.config import Config
from navarch.config.context import FileText
from navarch.config.errors import ConfigError, Problem
from navarch.config.loading import default_config, load_config, parse_config
from navarch.config.pool import PoolConfig
from navarch.config.pool_specs import to_pool, to_pool_spec, to_pool_specs
from navarch.config.provider import ProviderConfig
from navarch.config.reference import render_config, render_verdict
from navarch.config.reload import Reload, compare
from navarch.config.secret import Secret
from navarch.config.server import ServerConfig

__all__ = [
    "Config",
    "ConfigError",
    "FileText",
    "PoolConfig",
    "Problem",
    "ProviderConfig",
    "Reload",
    "Secret",
    "ServerConfig",
    "compare",
    "default_config",
    "load_config",
    "parse_config",
    "render_config",
    "render_verdict",
    "to_pool",
    "to_pool_spec",
    "to_pool_specs",
]
