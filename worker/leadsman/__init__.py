"""Leadsman for those who write agent steps: handlers, producers and the wire they speak.

Everything a program needs is here by name and loaded when first used, so that importing the package costs next to
nothing and brings no HTTP client, no server and no Kubernetes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leadsman.app import App as App
    from leadsman.budget import RemainingBudget as RemainingBudget
    from leadsman.client import Client as Client
    from leadsman.client import SyncClient as SyncClient
    from leadsman.context import Context as Context
    from leadsman.context import SyncContext as SyncContext
    from leadsman.errors import BrokerError as BrokerError
    from leadsman.errors import BrokerUnreachableError as BrokerUnreachableError
    from leadsman.errors import LeadsmanError as LeadsmanError
    from leadsman.errors import TaskFailedError as TaskFailedError
    from leadsman.errors import WaitTimeoutError as WaitTimeoutError
    from leadsman.outcomes import Dead as Dead
    from leadsman.outcomes import RateLimited as RateLimited
    from leadsman.outcomes import Release as Release
    from leadsman.outcomes import Retry as Retry
    from leadsman.outcomes import TaskCancelled as TaskCancelled
    from leadsman.wire.dead_letters import DeadFilter as DeadFilter
    from leadsman.wire.tasks import SubmitResult as SubmitResult
    from leadsman.wire.tasks import TaskClass as TaskClass
    from leadsman.wire.tasks import TaskState as TaskState
    from leadsman.wire.tasks import TaskSubmit as TaskSubmit
    from leadsman.wire.tasks import TaskView as TaskView

__version__ = "0.1.0"

_HOMES = {
    "App": "leadsman.app",
    "BrokerError": "leadsman.errors",
    "BrokerUnreachableError": "leadsman.errors",
    "Client": "leadsman.client",
    "Context": "leadsman.context",
    "Dead": "leadsman.outcomes",
    "DeadFilter": "leadsman.wire.dead_letters",
    "LeadsmanError": "leadsman.errors",
    "RateLimited": "leadsman.outcomes",
    "Release": "leadsman.outcomes",
    "RemainingBudget": "leadsman.budget",
    "Retry": "leadsman.outcomes",
    "SubmitResult": "leadsman.wire.tasks",
    "SyncClient": "leadsman.client",
    "SyncContext": "leadsman.context",
    "TaskCancelled": "leadsman.outcomes",
    "TaskClass": "leadsman.wire.tasks",
    "TaskFailedError": "leadsman.errors",
    "TaskState": "leadsman.wire.tasks",
    "TaskSubmit": "leadsman.wire.tasks",
    "TaskView": "leadsman.wire.tasks",
    "WaitTimeoutError": "leadsman.errors",
}

__all__ = sorted(["__version__", *_HOMES])  # noqa: PLE0605  one list of names, kept in _HOMES


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'leadsman' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
