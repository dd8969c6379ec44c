"""distkv: a replicated path-keyed store that takes writes on every side of a broken network.

Knows: the version, and where the names live that a user of the Python API needs.  Loads none of them before it is
asked for (PEP 562), so that what a part of the package needs is all that loading it costs: `import distkv` loads no
client, `distkv.connect` neither trio nor anyio.

Errors are named here as what went wrong, without the ending: `distkv.NotReady` is `distkv.errors.NotReadyError`, the
same class.  Bases, and what is wrong with the other side, keep their names.

Invariant: `__version__` is the one place that holds the version; a build reads it without running this file.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # as in `typing`, whose loading costs more than all that this file does

if TYPE_CHECKING:
    from distkv.client.activity import ActivityMessage, ActivityMissed
    from distkv.client.activity import SendUnknownError as SendUnknown
    from distkv.client.async_activity import AsyncActivity, open_activity
    from distkv.client.async_client import AsyncClient, open_client
    from distkv.client.async_items import Items
    from distkv.client.async_token import AsyncTokenHold
    from distkv.client.async_topic import AsyncConsumer, AsyncProducer
    from distkv.client.blocking import Client, connect
    from distkv.client.blocking_activity import Activity, connect_activity
    from distkv.client.blocking_token import TokenHold
    from distkv.client.blocking_topic import Consumer, Producer
    from distkv.client.changes import ChangePage, Located
    from distkv.client.conflicts import Loser
    from distkv.client.names import Listed
    from distkv.client.questions import Delete, DeletedCount, Entry, Get, Operation, Past, Set, Written
    from distkv.client.topic_handle import Message, PutDone
    from distkv.client.topic_state import BadStateError as BadState
    from distkv.client.watch import Change, Contested, Lost, Missed, Resync, UpToDate
    from distkv.errors import BadPathError as BadPath
    from distkv.errors import BadValueError as BadValue
    from distkv.errors import BusyError as Busy
    from distkv.errors import CancelledError as Cancelled
    from distkv.errors import ChainMismatchError as ChainMismatch
    from distkv.errors import ConflictError as Conflict
    from distkv.errors import ConnectionLostError as ConnectionLost
    from distkv.errors import DamagedError as Damaged
    from distkv.errors import DisabledError as Disabled
    from distkv.errors import DistkvError, PeerError, RequestError, SettingsError
    from distkv.errors import DuplicateNameError as DuplicateName
    from distkv.errors import ExistsError as Exists
    from distkv.errors import FencedError as Fenced
    from distkv.errors import ForbiddenError as Forbidden
    from distkv.errors import InternalError as Internal
    from distkv.errors import NoSpaceError as NoSpace
    from distkv.errors import NotFoundError as NotFound
    from distkv.errors import NotReadyError as NotReady
    from distkv.errors import TooLargeError as TooLarge
    from distkv.errors import UnknownActionError as UnknownAction
    from distkv.errors import UnknownOutcomeError as UnknownOutcome
    from distkv.errors import UnreachableError as Unreachable
    from distkv.errors import ValueMismatchError as ValueMismatch
    from distkv.model.event import tick_text
    from distkv.model.fence import Fence
    from distkv.model.path import Path
    from distkv.model.ranges import Ranges
    from distkv.transport.base import GroupMember
    from distkv.transport.membership import GroupNews, MemberNews, Membership, MessageNews, MissedNews, open_group
    from distkv.wire.account_errors import NameTakenError as NameTaken
    from distkv.wire.account_errors import NoMajorityError as NoMajority
    from distkv.wire.account_errors import WrongSecretError as WrongSecret
    from distkv.wire.token_errors import HeldError as Held
    from distkv.wire.token_errors import NoQuorumError as NoQuorum
    from distkv.wire.token_errors import NotHeldError as NotHeld
    from distkv.wire.token_errors import SessionExpiredError as SessionExpired
    from distkv.wire.token_errors import TimedOutError as TimedOut
    from distkv.wire.token_errors import TokenLostError as TokenLost
    from distkv.wire.token_errors import UngrantedError as Ungranted
    from distkv.wire.topic_errors import AwayError as Away
    from distkv.wire.topic_errors import BacklogError as Backlog
    from distkv.wire.topic_errors import NoReplicasError as NoReplicas
    from distkv.wire.topic_errors import StaleOpError as StaleOp
    from distkv.wire.topic_errors import TakenError as Taken

__all__ = [
    "Activity",
    "ActivityMessage",
    "ActivityMissed",
    "AsyncActivity",
    "AsyncClient",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncTokenHold",
    "Away",
    "Backlog",
    "BadPath",
    "BadState",
    "BadValue",
    "Busy",
    "Cancelled",
    "ChainMismatch",
    "Change",
    "ChangePage",
    "Client",
    "Conflict",
    "ConnectionLost",
    "Consumer",
    "Contested",
    "Damaged",
    "Delete",
    "DeletedCount",
    "Disabled",
    "DistkvError",
    "DuplicateName",
    "Entry",
    "Exists",
    "Fence",
    "Fenced",
    "Forbidden",
    "Get",
    "GroupMember",
    "GroupNews",
    "Held",
    "Internal",
    "Items",
    "Listed",
    "Located",
    "Loser",
    "Lost",
    "MemberNews",
    "Membership",
    "Message",
    "MessageNews",
    "Missed",
    "MissedNews",
    "NameTaken",
    "NoMajority",
    "NoQuorum",
    "NoReplicas",
    "NoSpace",
    "NotFound",
    "NotHeld",
    "NotReady",
    "Operation",
    "Past",
    "Path",
    "PeerError",
    "Producer",
    "PutDone",
    "Ranges",
    "RequestError",
    "Resync",
    "SendUnknown",
    "SessionExpired",
    "Set",
    "SettingsError",
    "StaleOp",
    "Taken",
    "TimedOut",
    "TokenHold",
    "TokenLost",
    "TooLarge",
    "Ungranted",
    "UnknownAction",
    "UnknownOutcome",
    "Unreachable",
    "UpToDate",
    "ValueMismatch",
    "Written",
    "WrongSecret",
    "__version__",
    "connect",
    "connect_activity",
    "open_activity",
    "open_client",
    "open_group",
    "tick_text",
]

_HOMES = {
    "distkv.client.activity": {"ActivityMessage", "ActivityMissed", "SendUnknown"},
    "distkv.client.async_activity": {"AsyncActivity", "open_activity"},
    "distkv.client.blocking_activity": {"Activity", "connect_activity"},
    "distkv.client.async_client": {"AsyncClient", "open_client"},
    "distkv.client.async_items": {"Items"},
    "distkv.client.async_token": {"AsyncTokenHold"},
    "distkv.client.async_topic": {"AsyncConsumer", "AsyncProducer"},
    "distkv.client.blocking": {"Client", "connect"},
    "distkv.client.blocking_token": {"TokenHold"},
    "distkv.client.blocking_topic": {"Consumer", "Producer"},
    "distkv.client.changes": {"ChangePage", "Located"},
    "distkv.client.conflicts": {"Loser"},
    "distkv.client.names": {"Listed"},
    "distkv.client.questions": {"Delete", "DeletedCount", "Entry", "Get", "Operation", "Past", "Set", "Written"},
    "distkv.client.topic_handle": {"Message", "PutDone"},
    "distkv.client.topic_state": {"BadState"},
    "distkv.client.watch": {"Change", "Contested", "Lost", "Missed", "Resync", "UpToDate"},
    "distkv.model.event": {"tick_text"},
    "distkv.model.fence": {"Fence"},
    "distkv.model.path": {"Path"},
    "distkv.model.ranges": {"Ranges"},
    "distkv.transport.base": {"GroupMember"},
    "distkv.transport.membership": {
        "GroupNews", "MemberNews", "Membership", "MessageNews", "MissedNews", "open_group",
    },
    "distkv.wire.account_errors": {"NameTaken", "NoMajority", "WrongSecret"},
    "distkv.wire.token_errors": {
        "Held", "NoQuorum", "NotHeld", "SessionExpired", "TimedOut", "TokenLost", "Ungranted",
    },
    "distkv.wire.topic_errors": {"Away", "Backlog", "NoReplicas", "StaleOp", "Taken"},
}
"""Where what is no error that all know is defined."""

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        """Load what a name stands for; from then on it is an ordinary attribute."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import importlib

        home = next((module for module, names in _HOMES.items() if name in names), "distkv.errors")
        module = importlib.import_module(home)
        found = getattr(module, name, None) or getattr(module, f"{name}Error")
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
