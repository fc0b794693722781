"""Which broker, which namespace, as whom: arguments first, then the environment, then defaults."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from leadsman.app import CAPABILITY_PATTERN
from leadsman.connection.token import TokenSource
from leadsman.errors import ConfigurationError

DEFAULT_URL = "http://127.0.0.1:8080"
DEFAULT_NAMESPACE = "default"

_HOST = r"[A-Za-z0-9_.:%-]+"


@dataclass(frozen=True, slots=True)
class Address:
    """A namespace of a broker, and the token to go there with."""

    url: str
    """Without a slash at the end."""
    namespace: str
    token: TokenSource

    def path(self, *parts: str) -> str:
        """Return the absolute path of something in the namespace, each part escaped."""
        base = urlsplit(self.url).path
        return "/".join([f"{base}/v1/namespaces", *(quote(part, safe="") for part in (self.namespace, *parts))])


def resolve(
    url: str | None = None,
    namespace: str | None = None,
    token: str | None = None,
    token_file: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Address:
    """Return the address from what is given, else LEADSMAN_BROKER_URL, _NAMESPACE, _TOKEN, _TOKEN_FILE.

    Raises ConfigurationError for what no broker can have.
    """
    env = os.environ if environment is None else environment
    chosen = url or env.get("LEADSMAN_BROKER_URL") or DEFAULT_URL
    where = namespace or env.get("LEADSMAN_NAMESPACE") or DEFAULT_NAMESPACE
    if token is not None and token_file is not None:
        raise ConfigurationError("give a token or a token file, not both")
    if token is None and token_file is None:
        token_file = env.get("LEADSMAN_TOKEN_FILE") or None
        token = None if token_file else env.get("LEADSMAN_TOKEN") or None
    if token is not None and not re.fullmatch(r"[\x21-\x7e]+", token := token.strip()):
        raise ConfigurationError("the token must be one line of printable ASCII; check LEADSMAN_TOKEN")
    if not re.fullmatch(CAPABILITY_PATTERN, where):
        raise ConfigurationError(f"{where!r} is no namespace; check LEADSMAN_NAMESPACE or --namespace")
    return Address(_checked_url(chosen), where, TokenSource(token, Path(token_file) if token_file else None))


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode()
        usable = parts.scheme in {"http", "https"} and bool(re.fullmatch(_HOST, host)) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment:
        raise ConfigurationError(
            f"{url!r} is no broker address; it looks like http://leadsman-broker.leadsman.svc:8080 "
            "(LEADSMAN_BROKER_URL or --broker-url)"
        )
    return url.rstrip("/")
