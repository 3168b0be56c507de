"""The claim: a file on the machine itself that names its owner.

Two independent control planes may have the same machine in their inventories. The file is created
atomically, so only one of them gets the machine.
"""

import shlex

CLAIM = "/var/lib/navarch/claim"
TAKEN = 73
"""The exit code of a command on a machine that has another owner."""


def claim_command(owner: str, *, path: str = CLAIM) -> str:
    """Return the command that claims the machine for `owner`. It is idempotent."""
    parent = path.rpartition("/")[0] or "."
    folder, file, mine = (shlex.quote(word) for word in (parent, path, owner))
    return (
        f"mkdir -p {folder} && "
        f"( ( set -C; printf '%s\\n' {mine} > {file} ) 2>/dev/null "
        f'|| [ "$(cat {file})" = {mine} ] '
        f"|| {{ cat {file}; exit {TAKEN}; }} )"
    )


def release_command(owner: str, *, path: str = CLAIM) -> str:
    """Return the command that removes the claim, if it is `owner`'s."""
    file, mine = shlex.quote(path), shlex.quote(owner)
    return f'[ ! -e {file} ] || [ "$(cat {file})" != {mine} ] || rm -f {file}'


def holds_command(owner: str, *, path: str = CLAIM) -> str:
    """Return the command that succeeds if the claim is `owner`'s or missing."""
    file, mine = shlex.quote(path), shlex.quote(owner)
    return f'[ ! -e {file} ] || [ "$(cat {file})" = {mine} ] || {{ cat {file}; exit {TAKEN}; }}'


def owns_command(owner: str, *, path: str = CLAIM) -> str:
    """Return the command that succeeds if the claim is `owner`'s, and not if it is missing."""
    file, mine = shlex.quote(path), shlex.quote(owner)
    return f'[ -e {file} ] && [ "$(cat {file})" = {mine} ]'
