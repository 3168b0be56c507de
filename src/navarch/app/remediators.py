"""Remediators by the name that a configuration file gives them."""

import importlib
from collections.abc import Iterable, Mapping

from navarch.app.addresses import StartError
from navarch.ports.remediator import Remediator


def load_remediators(names: Iterable[str]) -> Mapping[str, Remediator]:
    """Return one's own remediators, each named `module:Class`, by that name.

    Only a configuration file can name them: whoever may write to it may run code here anyway,
    and whoever may only call the API may not.
    """
    return {name: _load(name) for name in sorted({name for name in names if ":" in name})}


def _load(name: str) -> Remediator:
    module, _, attribute = name.partition(":")
    try:
        made = getattr(importlib.import_module(module), attribute)()
    except Exception as error:
        raise StartError(f"remediation {name!r} cannot be loaded: {error}") from error
    if not callable(getattr(made, "remediate", None)):
        raise StartError(f"remediation {name!r} has no method remediate(pool, node)")
    remediator: Remediator = made
    return remediator
