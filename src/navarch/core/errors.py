"""Every error Navarch raises on purpose. A class says what the *caller* should do next.

NavarchError
├── ConflictError              the state moved under a plan; look again
├── InvariantError             a plan contradicts itself; a bug, never retried
├── NotFoundError              there is no such thing; check the name
├── NotPossibleError           not in this state; the message says what would help
├── InvalidError               the request makes no sense; the message names the field
├── UnauthenticatedError       nobody we know is asking; bring a valid token
├── UnreachableError           the control plane does not answer; ask again later
├── ConfigError                a configuration file is wrong; see config/problem.py
├── StartError                 the server cannot start as asked; see app/addresses.py
├── ExtensionError             a part of somebody else's cannot be had; install or correct it
├── StoreError                 the durable state cannot be read or written; stop
│   ├── InUseError             another control plane leads; wait for its end
│   └── SupersededError        another control plane has taken over; do nothing more
├── NotifierError              a workload system did not listen; tell it again later
├── MetricsError               nobody can say how busy a pool is; leave its size alone
└── ProviderError              a cloud said no
    ├── CapacityError          no machine of that kind now; try the next offering
    ├── QuotaError             the account may not have more; tell a human
    │   └── RegionQuotaError   ... in that region; another may do
    ├── CredentialError        the key is wrong; stop asking
    ├── RejectedError          the request itself is wrong; fix the pool
    ├── InstanceNotFoundError  already gone; for terminate, that is success
    ├── TransientError         refused before anything happened; ask again later
    └── OutcomeUnknownError    it may have happened; look it up before asking again
"""


class NavarchError(Exception):
    """Base class of every error that Navarch raises on purpose."""


class ConflictError(NavarchError):
    """The store holds something newer than what a change was based on."""


class InvariantError(NavarchError):
    """A plan would break a rule that must hold in every state."""


class NotFoundError(NavarchError):
    """Nothing by that name is known."""


class NotPossibleError(NavarchError):
    """The request is sensible, but not in the present state."""


class InvalidError(NavarchError):
    """The request does not make sense in any state."""


class UnauthenticatedError(NavarchError):
    """The credentials are missing or wrong."""


class UnreachableError(NavarchError):
    """The control plane cannot be reached, or did not answer in time."""


class ExtensionError(NavarchError):
    """A part that the configuration names is not installed, or cannot be made."""


class StoreError(NavarchError):
    """The durable state cannot be read or written."""


class InUseError(StoreError):
    """Another control plane leads, and will for as long as it lives."""


class SupersededError(StoreError):
    """Another control plane has taken over: whatever this one still plans is nobody's plan."""


class NotifierError(NavarchError):
    """A workload system could not be told something."""


class MetricsError(NavarchError):
    """It is not known how busy a pool is."""


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


class RejectedError(ProviderError):
    """The provider will never accept this request as it stands."""


class InstanceNotFoundError(ProviderError):
    """The provider does not know this instance."""


class TransientError(ProviderError):
    """The provider refused before doing anything; the same request may pass later."""


class OutcomeUnknownError(ProviderError):
    """The call may have taken effect. Nothing may be bought before it is looked up."""
