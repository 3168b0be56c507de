"""Health policies: the file that a scenario is judged by."""

from dataclasses import dataclass

from navarch.config.context import Scope
from navarch.config.document import Tree
from navarch.config.errors import ConfigError
from navarch.config.kinds import FilePath
from navarch.config.policy import parse_policy
from navarch.health.policy.engine import PolicySet, compile_policies


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFile:
    """A policy's path and text, known to be sound."""

    path: str
    text: str

    def book(self) -> PolicySet:
        """Return what the control plane judges by."""
        return compile_policies(parse_policy(self.text, source=self.path))


class PolicyPath:
    """The path of a policy, as the control plane reads it."""

    noun = "the path of a policy"

    def read(self, node: Tree, scope: Scope) -> PolicyFile:
        """Return the policy, or note what is wrong with its file."""
        path = FilePath().read(node, scope)
        try:
            text = scope.context.read_file(scope.context.resolve_path(path)).text
            parse_policy(text, source=path)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise scope.refuse(node, f"{path}: {reason}", "write the path of a policy") from error
        except ConfigError as error:
            problem = error.problems[0]
            place = f":{problem.place.line}:{problem.place.column}" if problem.place else ""
            raise scope.refuse(node, f"{path}{place}: {problem.message}", problem.remedy) from error
        return PolicyFile(path=path, text=text)

    def plain(self, value: PolicyFile) -> object:
        """Return the path."""
        return value.path
