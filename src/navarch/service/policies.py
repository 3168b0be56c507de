"""The use cases of health policies."""

from collections.abc import Callable, Sequence

from navarch.core.errors import InvalidError
from navarch.health.policy.engine import PolicySet
from navarch.health.policy.trial import rule_on_xid
from navarch.ports.clock import Clock
from navarch.ports.policies import XidRuling

CODE_MAX = 99_999
TEXT_MAX = 4096


class PolicyService:
    """Serves PolicyApi."""

    def __init__(self, clock: Clock, policies: Callable[[], PolicySet]) -> None:
        self._clock = clock
        self._policies = policies

    async def judge_xid(self, code: int, text: str = "") -> Sequence[XidRuling]:
        """Return what each policy does: first on a busy machine, then where that differs."""
        if not 1 <= code <= CODE_MAX:
            raise InvalidError(f"code: must be 1 to {CODE_MAX}, not {code}")
        if len(text) > TEXT_MAX:
            raise InvalidError(f"text: at most {TEXT_MAX} characters")
        return rule_on_xid(self._policies(), code, text, self._clock.now())
