"""Navarch keeps GPU fleets healthy."""

from typing import TYPE_CHECKING, Any

from navarch.core import version

if TYPE_CHECKING:
    from navarch.app.embedding import ControlPlane

__all__ = ["ControlPlane", "__version__"]
__version__ = version.VERSION


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the protocol of modules
    # Loaded on first use: the agent, which imports this module too, must stay light.
    if name == "ControlPlane":
        from navarch.app.embedding import ControlPlane

        return ControlPlane
    raise AttributeError(f"module 'navarch' has no attribute {name!r}")
