"""Kernel lines inside the records of log collectors: journald, Docker and CRI.

The fields of journald that begin with an underscore are its own and cannot be set by the sender, so
they show whether a message came from the kernel. Docker and CRI record what a container printed,
which is judged like any other line.
"""

import re

import msgspec

BYTE_ORDER_MARK = "\ufeff"
NESTED_MAX = 3
"""A container that prints the journal has two wrappers."""

_CRI = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) std(?:out|err) [FP](?::\S*)? ")


def unwrap(line: str) -> str | None:
    """Return the line without what log collectors put around it.

    None if its record shows that the line is not the kernel's.
    """
    inner: str | None = line
    for _ in range(NESTED_MAX):
        if inner is None or inner[:1] not in WRAPPED:
            break
        inner = _unwrap_once(inner)
    return inner


WRAPPED = frozenset("{0123456789" + BYTE_ORDER_MARK)
"""The first characters of lines that may be wrapped."""


def _unwrap_once(line: str) -> str | None:
    line = line.removeprefix(BYTE_ORDER_MARK)
    if not line.startswith("{"):
        found = _CRI.match(line)
        return line if found is None else line[found.end() :]
    try:
        record = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return line
    if not isinstance(record, dict):
        return line
    printed = record.get("log")
    if isinstance(printed, str):
        return printed.rstrip("\r\n")
    if "MESSAGE" not in record:
        return None
    is_kernel = record.get("_TRANSPORT") == "kernel"
    if not is_kernel or str(record.get("SYSLOG_FACILITY", "0")) != "0":
        return None
    return message_of(record["MESSAGE"])


def message_of(message: object) -> str | None:
    """Return a message, which journald writes as numbers if it holds control characters."""
    if isinstance(message, str):
        return message
    try:
        return bytes(message).decode("utf-8", "replace") if isinstance(message, list) else None
    except (TypeError, ValueError):
        return None
