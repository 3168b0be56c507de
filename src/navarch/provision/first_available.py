"""The pool's own list, from the top."""

from navarch.ports.provision import ProvisionOption


class FirstAvailable:
    """No preference beyond the pool's own list: the first that can be had."""

    def score(self, option: ProvisionOption) -> float:
        """Return a score that falls with the place in the list."""
        return -float(option.position)
