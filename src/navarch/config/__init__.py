"""Configuration: YAML to typed values, with messages a person can act on."""

from navarch.config.config import Config
from navarch.config.loading import load_config, parse_config
from navarch.config.problem import ConfigError, Problem
from navarch.config.secret import Secret

__all__ = ["Config", "ConfigError", "Problem", "Secret", "load_config", "parse_config"]
