"""What one worker process is told: by flags, else by the environment that the operator injects, else defaults."""

import math
import re
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from leadsman.app import CAPABILITY_PATTERN, App
from leadsman.connection.address import Address, resolve
from leadsman.errors import ConfigurationError
from leadsman.wire.base import MAX_SLOTS
from leadsman.wire.leases import WorkerIdentity

DEFAULT_DRAIN_SECONDS = 3600.0
DEFAULT_LOST_GRACE_SECONDS = 60.0
MAX_CAPABILITIES = 16

_CLOSING_SHARE = 0.2
_MAX_CLOSING_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """All that a worker needs to know beside its handlers."""

    address: Address
    identity: WorkerIdentity
    capabilities: tuple[str, ...]
    slots: int = 1
    limits: Mapping[str, int] = field(default_factory=dict)
    """By capability, how many of the slots its tasks may take; all of them where nothing is said."""
    drain_seconds: float = DEFAULT_DRAIN_SECONDS
    """From SIGTERM to the end, as the pod's termination grace."""
    lost_grace_seconds: float = DEFAULT_LOST_GRACE_SECONDS
    """For a handler whose lease is lost, before the worker drains and ends to be rid of it."""
    health_port: int | None = None
    """None: no health server. 0: a free port, told in the log."""

    @property
    def closing_seconds(self) -> float:
        """The end of the drain that is kept for cancelling and giving back what did not finish."""
        return min(_MAX_CLOSING_SECONDS, self.drain_seconds * _CLOSING_SHARE)


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line said; None where it said nothing."""

    broker_url: str | None = None
    namespace: str | None = None
    token_file: str | None = None
    capabilities: tuple[str, ...] = ()
    slots: int | None = None
    limits: tuple[str, ...] = ()
    """As `capability=slots`."""
    pool: str | None = None
    drain_seconds: float | None = None
    lost_grace_seconds: float | None = None
    health_port: int | None = None


def worker_settings(app: App, given: Overrides, env: Mapping[str, str]) -> WorkerSettings:
    """Put the settings together. Raises ConfigurationError that names what to change."""
    address = resolve(given.broker_url, given.namespace, None, given.token_file, env)
    slots = given.slots if given.slots is not None else _integer(env, "LEADSMAN_SLOTS", 1)
    if not 1 <= slots <= MAX_SLOTS:
        raise ConfigurationError(f"slots must be 1 to {MAX_SLOTS}, not {slots}; check LEADSMAN_SLOTS or --slots")
    port = given.health_port
    if port is None and env.get("LEADSMAN_HEALTH_PORT"):
        port = _integer(env, "LEADSMAN_HEALTH_PORT", 0)
    if port is not None and not 0 <= port <= 65_535:
        raise ConfigurationError(f"{port} is no port; check LEADSMAN_HEALTH_PORT or --health-port")
    drain = _duration(given.drain_seconds, env, "LEADSMAN_DRAIN_SECONDS", DEFAULT_DRAIN_SECONDS)
    grace = _duration(given.lost_grace_seconds, env, "LEADSMAN_LOST_GRACE_SECONDS", DEFAULT_LOST_GRACE_SECONDS)
    capabilities = _capabilities(app, given.capabilities or _listed(env, "LEADSMAN_CAPABILITIES"))
    return WorkerSettings(
        address=address,
        identity=_identity(given.pool, env),
        capabilities=capabilities,
        slots=slots,
        limits=_limits(given.limits or _listed(env, "LEADSMAN_LIMITS"), capabilities),
        drain_seconds=drain,
        lost_grace_seconds=grace,
        health_port=port,
    )


def _listed(env: Mapping[str, str], name: str) -> tuple[str, ...]:
    parts = (part.strip() for part in env.get(name, "").split(","))
    return tuple(part for part in parts if part)


def _limits(given: tuple[str, ...], capabilities: tuple[str, ...]) -> dict[str, int]:
    limits = {}
    for text in given:
        name, _, number = (part.strip() for part in text.partition("="))
        if name not in capabilities:
            raise ConfigurationError(
                f"{text!r} limits a capability that this worker does not serve ({', '.join(capabilities)}); "
                "check LEADSMAN_LIMITS or --limit"
            )
        if not number.isascii() or not number.isdigit() or not 1 <= int(number) <= MAX_SLOTS:
            raise ConfigurationError(
                f"{text!r} is no limit; say CAPABILITY=SLOTS with 1 to {MAX_SLOTS} (LEADSMAN_LIMITS or --limit)"
            )
        limits[name] = int(number)
    return limits


def _capabilities(app: App, listed: tuple[str, ...]) -> tuple[str, ...]:
    """Check that every listed capability has a handler; a worker that lacks one would only fail its tasks."""
    chosen = tuple(dict.fromkeys(listed)) or app.capabilities
    if not chosen:
        raise ConfigurationError("the application has no handler; decorate a function with @app.task(CAPABILITY)")
    for name in chosen:
        if not re.fullmatch(CAPABILITY_PATTERN, name):
            raise ConfigurationError(f"{name!r} is no capability name; check LEADSMAN_CAPABILITIES")
    missing = [name for name in chosen if name not in app.capabilities]
    if missing:
        raise ConfigurationError(
            f"no handler for {', '.join(missing)}, which this worker is to serve; the application has handlers for "
            f"{', '.join(app.capabilities) or 'nothing'} (LEADSMAN_CAPABILITIES, or spec.capabilities of the pool)"
        )
    if len(chosen) > MAX_CAPABILITIES:
        raise ConfigurationError(
            f"a worker serves at most {MAX_CAPABILITIES} capabilities, not {len(chosen)}; "
            "choose some with LEADSMAN_CAPABILITIES or --capability"
        )
    return chosen


def _identity(pool: str | None, env: Mapping[str, str]) -> WorkerIdentity:
    """Return who this process is: the pod and, because a container restarts in its pod, which life of it."""
    host = re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname())[:100] or "host"
    pool = pool or env.get("LEADSMAN_POOL") or None
    if pool is not None and not re.fullmatch(CAPABILITY_PATTERN, pool):
        raise ConfigurationError(f"{pool!r} is no pool name; check LEADSMAN_POOL")
    uid = env.get("LEADSMAN_POD_UID") or f"{host}-{secrets.token_hex(6)}"
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", uid):
        raise ConfigurationError(f"{uid!r} is no pod UID; check LEADSMAN_POD_UID")
    return WorkerIdentity(
        pod_uid=uid,
        incarnation=secrets.token_hex(6),
        pool=pool,
        pod_name=(env.get("LEADSMAN_POD_NAME") or host)[:253],
    )


def _integer(env: Mapping[str, str], name: str, default: int) -> int:
    text = env.get(name, "").strip()
    try:
        return int(text) if text else default
    except ValueError as error:
        raise ConfigurationError(f"{name} must be a whole number, not {text!r}") from error


def _duration(given: float | None, env: Mapping[str, str], name: str, default: float) -> float:
    seconds = given if given is not None else _number(env, name, default)
    if seconds < 0:
        raise ConfigurationError(f"{seconds:g} seconds cannot be negative; check {name}")
    return seconds


def _number(env: Mapping[str, str], name: str, default: float) -> float:
    text = env.get(name, "").strip()
    try:
        found = float(text) if text else default
    except ValueError as error:
        raise ConfigurationError(f"{name} must be a number of seconds, not {text!r}") from error
    if not math.isfinite(found):
        raise ConfigurationError(f"{name} must be a number of seconds, not {text!r}")
    return found
