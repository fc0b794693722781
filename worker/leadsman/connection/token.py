"""The caller's token: given, or in a file that somebody else rotates."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from leadsman.errors import ConfigurationError


@dataclass(slots=True)
class TokenSource:
    """A bearer token. A file is read again whenever it changes, as the kubelet replaces it before it expires."""

    token: str | None = None
    file: Path | None = None
    _seen: tuple[int, int, int] | None = field(default=None, init=False)
    _value: str | None = field(default=None, init=False)

    def current(self) -> str | None:
        """Return the token to send now, or None. Raises ConfigurationError when the file cannot be used."""
        if self.file is None:
            return self.token
        try:
            status = self.file.stat()
            mark = (status.st_mtime_ns, status.st_ino, status.st_size)
            if mark != self._seen:
                self._value = _checked(self.file.read_text(encoding="ascii").strip(), self.file)
                self._seen = mark
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                f"the token file {os.fspath(self.file)} cannot be read ({_why(error)}); "
                "check LEADSMAN_TOKEN_FILE or --token-file"
            ) from error
        return self._value

    def headers(self) -> dict[str, str]:
        """Return the Authorization header, or none."""
        token = self.current()
        return {} if token is None else {"Authorization": f"Bearer {token}"}


def _checked(token: str, file: Path) -> str:
    if not token or any(character.isspace() or not character.isprintable() for character in token):
        raise ConfigurationError(
            f"the token file {os.fspath(file)} must hold exactly one token; "
            "check LEADSMAN_TOKEN_FILE or --token-file"
        )
    return token


def _why(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else "it is not ASCII text"
