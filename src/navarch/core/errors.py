"""Every error Navarch raises on purpose. The class determines what the *caller* should do next.

NavarchError
├── ConflictError              the state changed since the plan was made; plan again
├── InvariantError             a plan contradicts itself; a bug, never retried
├── NotFoundError              it does not exist; check the name
├── NotPossibleError           not in this state; the message states what would help
├── InvalidError               the request makes no sense; the message names the field
├── UnauthenticatedError       the token is missing or wrong; use a valid one
├── PermissionDeniedError      the caller's role or scope does not allow it; ask an administrator
├── UnreachableError           the control plane does not answer; retry later
├── ConfigError                a configuration file is wrong; see config/problem.py
├── StartError                 the server cannot start as configured; see app/servers.py
├── SecretError                a secret cannot be read; correct its reference or its permissions
├── ExtensionError             an extension cannot be loaded; install or correct it
├── ExtensionFailedError       an extension failed, or is not called yet; do what is safe
├── StoreError                 the durable state cannot be read or written; stop
│   ├── InUseError             another control plane leads; wait until it ends
│   ├── MovedError             the state was copied elsewhere; serve that one
│   ├── StoreAwayError         the database does not answer; retry later
│   └── SupersededError        another control plane has taken over; do nothing more
├── NotifierError              a workload system was not notified; retry later
├── AlertDeliveryError         a channel did not accept an alert; send it again later
├── MetricsError               the load of a pool is unknown; keep its size
└── ProviderError              a cloud refused or failed a request
    ├── CapacityError          no machine of that kind now; try the next offering
    ├── QuotaError             the account may not have more; notify an operator
    │   └── RegionQuotaError   ... in that region; another may do
    ├── CredentialError        the key is wrong; stop retrying
    │   └── KeyRefusedError    ... for every call: it is missing or unknown
    ├── RejectedError          the request itself is wrong; fix the pool
    ├── InstanceNotFoundError  already gone; for terminate, that is success
    ├── TransientError         refused before anything happened; retry later
    └── OutcomeUnknownError    it may have happened; look it up before a retry
"""

from datetime import timedelta


class NavarchError(Exception):
    """Base class of every error that Navarch raises on purpose."""


class ConflictError(NavarchError):
    """The store holds something newer than what a change was based on."""


class InvariantError(NavarchError):
    """A plan would break a rule that must hold in every state."""


class NotFoundError(NavarchError):
    """The requested object does not exist."""


class NotPossibleError(NavarchError):
    """The request is valid, but not possible in the present state."""


class InvalidError(NavarchError):
    """The request is not valid in any state."""


class UnauthenticatedError(NavarchError):
    """The credentials are missing or wrong."""


class PermissionDeniedError(NavarchError):
    """The credentials are valid, and do not allow the request."""


class UnreachableError(NavarchError):
    """The control plane cannot be reached, or did not answer in time."""


class SecretError(NavarchError):
    """A secret that the configuration refers to cannot be read."""


class ExtensionError(NavarchError):
    """An extension that the configuration names is not installed or cannot be created."""


class ExtensionFailedError(NavarchError):
    """An extension failed, or waits until it is called again: do what cannot do harm."""


class StoreError(NavarchError):
    """The durable state cannot be read or written."""


class InUseError(StoreError):
    """Another control plane leads for as long as it runs."""


class MovedError(StoreError):
    """The state was copied to another store, and must not be served twice."""

    def __init__(self, place: str, moved_to: str) -> None:
        super().__init__(
            f"the state in {place} was moved to {moved_to} by `navarch store copy`; serve that one"
        )


class StoreAwayError(StoreError):
    """The database cannot be reached, or has ended the connection."""


class SupersededError(StoreError):
    """Another control plane has taken over: this one must carry out nothing more."""


class NotifierError(NavarchError):
    """A workload system could not be notified."""


class AlertDeliveryError(NavarchError):
    """A channel did not accept an alert."""

    def __init__(
        self, message: str, *, refused: bool = False, retry_after: timedelta | None = None
    ) -> None:
        """`refused`: an operator must correct something before the channel accepts it."""
        super().__init__(message)
        self.refused = refused
        self.retry_after = retry_after
        """How long the service asks to wait."""


class MetricsError(NavarchError):
    """The load of a pool is unknown."""


class ProviderError(NavarchError):
    """A provider refused or failed a request."""


class CapacityError(ProviderError):
    """No machine of the requested kind is available now."""


class QuotaError(ProviderError):
    """The account may not own more machines of this kind."""


class RegionQuotaError(QuotaError):
    """The account may not own more machines of this kind in this region."""


class CredentialError(ProviderError):
    """The provider rejected our credentials."""


class KeyRefusedError(CredentialError):
    """The provider has no key of ours, or does not know it: no call can succeed."""


class RejectedError(ProviderError):
    """The provider will never accept this request as it stands."""


class InstanceNotFoundError(ProviderError):
    """The provider has no such instance."""


class TransientError(ProviderError):
    """The provider refused before doing anything; the same request may pass later."""


class OutcomeUnknownError(ProviderError):
    """The call may have taken effect. Look it up before buying anything."""
