"""The claim: a file on the machine itself that says whose it is.

Control planes that know nothing of each other may have one machine in both their inventories.
The file is made in one step or not at all, so only one of them can have the machine.
"""

import shlex

CLAIM = "/var/lib/navarch/claim"
TAKEN = 73
"""The exit code for a machine that somebody else has."""


def claim_command(owner: str, *, path: str = CLAIM) -> str:
    """Return what makes the machine ours; again is as good as once."""
    folder, file, mine = (shlex.quote(word) for word in (_folder(path), path, owner))
    return (
        f"mkdir -p {folder} && "
        f"( ( set -C; printf '%s\\n' {mine} > {file} ) 2>/dev/null "
        f'|| [ "$(cat {file})" = {mine} ] '
        f"|| {{ cat {file}; exit {TAKEN}; }} )"
    )


def release_command(owner: str, *, path: str = CLAIM) -> str:
    """Return what lets go of the machine, if it is ours."""
    file, mine = shlex.quote(path), shlex.quote(owner)
    return f'[ ! -e {file} ] || [ "$(cat {file})" != {mine} ] || rm -f {file}'


def holds_command(owner: str, *, path: str = CLAIM) -> str:
    """Return what succeeds if the machine is ours or nobody's, and may therefore be cleaned."""
    file, mine = shlex.quote(path), shlex.quote(owner)
    return f'[ ! -e {file} ] || [ "$(cat {file})" = {mine} ] || {{ cat {file}; exit {TAKEN}; }}'


def owns_command(owner: str, *, path: str = CLAIM) -> str:
    """Return what succeeds if the machine is ours, and nobody's does not count."""
    file, mine = shlex.quote(path), shlex.quote(owner)
    return f'[ -e {file} ] && [ "$(cat {file})" = {mine} ]'


def _folder(path: str) -> str:
    return path.rpartition("/")[0] or "."
