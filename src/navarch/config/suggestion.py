"""Suggestions for misspelt and renamed keys."""

import difflib
from collections.abc import Iterable, Mapping

MOVED: Mapping[str, str] = {
    "instance_manager": 'set "boot_deadline" in each pool',
    "unhealthy_threshold": 'write "unhealthy_after" under "health"',
    "scaling": 'write "autoscaling"',
    "cooldown_period": 'write "cooldown"',
    "scale_up_threshold": 'write "scale_up_at"',
    "scale_down_threshold": 'write "scale_down_at"',
    "strategies": 'write "autoscalers", with type: composite',
    "start_hour": 'write "start"',
    "end_hour": 'write "end"',
    "api_key_secret": 'write "api_key_file" or "api_key_env"',
    "credentials_secret": 'write "credentials_file"',
    "global": 'write "defaults" or "server"',
    "grpc_port": 'write "grpc_address"',
    "instance_types": 'write "instance_type"',
    "regions": 'write "region", or "regions" in an entry of "providers"',
    "weight": 'write it in an entry of "providers"',
    "priority": 'write it in an entry of "providers"',
}
"""Remedies for keys of older guides and for keys written in the wrong block."""

_LENGTH_MAX = 64


def suggest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like `name`, if any is close."""
    if len(name) > _LENGTH_MAX:
        return None
    by_folded = {each.lower().replace("-", "_"): each for each in known}
    folded = name.lower().replace("-", "_")
    close = difflib.get_close_matches(folded, by_folded, n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def join_names(names: Iterable[str]) -> str:
    """Return names as an English list: `a, b or c`."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
