"""Secret files: a secret that stands in a file of its own."""

from navarch.config.kinds import SECRET
from navarch.config.reading import Scope
from navarch.config.secret import Secret
from navarch.config.tree import Tree


def read_secret_file(node: Tree, scope: Scope) -> Secret:
    """Return the secret in the file that `node` names."""
    leaf = scope.leaf(node, "a path", "./token")
    if leaf.tag in ("bool", "null") or not leaf.text:
        raise scope.wrong_type(leaf, "a path", "./token")
    path = scope.reading.beside(leaf.text)
    try:
        found = scope.reading.read_file(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it does not hold text"
        message = f"{scope.label}: cannot read {leaf.shown}: {reason}"
        remedy = "paths are relative to the configuration file"
        raise scope.refuse(leaf, message, remedy) from None
    if found.readable_by_others:
        message = f"{scope.label}: everybody on this machine can read {leaf.shown}"
        scope.warn(leaf, message, f"chmod 600 {leaf.shown}")
    return SECRET.wrap(found.text.strip(), leaf, scope)
