"""How a broker is to run, checked as far as that is possible before anything is opened."""

import ipaddress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class AuthMode(StrEnum):
    """How callers are known."""

    NONE = "none"
    STATIC = "static"
    KUBERNETES = "kubernetes"


class SettingsError(Exception):
    """The settings contradict each other or the world; the message is one line that says what to change."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The flags of `leadsman-broker serve`."""

    host: str
    port: int
    ops_port: int
    data: Path | None
    """None: in memory."""
    auth: AuthMode
    insecure: bool
    audience: str
    tokens_file: Path | None
    operator_identities: tuple[str, ...]
    admin_identities: tuple[str, ...]
    kube_api_url: str | None
    kube_token_file: Path | None
    kube_ca_file: Path | None
    capabilities_file: Path | None
    min_free_bytes: int
    max_body_bytes: int
    log_level: str

    def check(self) -> None:
        """Raise SettingsError for what cannot work or must not be."""
        if self.auth is AuthMode.NONE and not self.insecure and not is_loopback(self.host):
            raise SettingsError(
                f"--auth none on {self.host} would let anyone who reaches it submit and take tasks: use "
                "--auth static or --auth kubernetes, listen on 127.0.0.1, or say --insecure"
            )
        if self.auth is AuthMode.STATIC and self.tokens_file is None:
            raise SettingsError("--auth static needs --tokens-file")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
