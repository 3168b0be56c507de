"""Resolution: what YAML takes an unquoted word for."""

from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

_TAG_PREFIX = "tag:yaml.org,2002:"


def resolve_tag(text: str) -> str:
    """Return the tag of a plain scalar: int for 5, bool for true, str for most."""
    tag: str = Resolver().resolve(ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return tag.removeprefix(_TAG_PREFIX)
