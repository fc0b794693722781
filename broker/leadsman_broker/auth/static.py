"""Bearer tokens from a file, for brokers outside of a cluster or where TokenReview is not allowed.

The file is YAML or JSON:

    tokens:
      - name: nightly-import        # for the log
        token: 9f1c...              # or tokenSha256: hex digest, so that the file holds no secret
        roles: [producer]
        namespaces: [research]      # ["*"] for every namespace; not needed for operator and admin
"""

import hashlib
from pathlib import Path
from typing import Annotated, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from leadsman.wire.base import Name
from leadsman_broker.auth.principal import Principal, Role, UnauthenticatedError

_EVERY = "*"


class TokensFileError(Exception):
    """The tokens file cannot be used; the message is one line that says where and why."""


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1, max_length=253)]
    token: Annotated[str | None, Field(min_length=16, max_length=4096)] = None
    token_sha256: Annotated[str | None, Field(alias="tokenSha256", pattern=r"^[0-9a-f]{64}$")] = None
    roles: Annotated[list[Role], Field(min_length=1)]
    namespaces: list[Annotated[str, Field(pattern=r"^\*$")] | Name] = []

    @model_validator(mode="after")
    def _is_usable(self) -> Self:
        if (self.token is None) == (self.token_sha256 is None):
            raise ValueError("give exactly one of token and tokenSha256")
        local = {Role.PRODUCER, Role.WORKER} & set(self.roles)
        if local and Role.ADMIN not in self.roles and not self.namespaces:
            raise ValueError(
                'producer and worker need namespaces; write namespaces: ["*"] to allow every namespace'
            )
        return self

    def digest(self) -> bytes:
        return digest(self.token) if self.token is not None else bytes.fromhex(self.token_sha256 or "")


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    tokens: Annotated[list[_Entry], Field(min_length=1)]


def digest(token: str) -> bytes:
    """Hash a token: the form in which tokens are kept, whose lookup tells nothing about them by its time."""
    return hashlib.sha256(token.encode()).digest()


class StaticTokens:
    """Callers by the digest of their token."""

    def __init__(self, principals: dict[bytes, Principal]) -> None:
        self._principals = principals

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a tokens file. Raises TokensFileError."""
        try:
            parsed = _File.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
        except OSError as error:
            raise TokensFileError(f"cannot read the tokens file {path}: {error.strerror}") from error
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise TokensFileError(f"the tokens file {path} is not YAML: {_one_line(str(error))}") from error
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "the top level"
            raise TokensFileError(f"the tokens file {path} is wrong at {where}: {first['msg']}") from error
        principals: dict[bytes, Principal] = {}
        for entry in parsed.tokens:
            key = entry.digest()
            if key in principals:
                raise TokensFileError(
                    f"the tokens file {path} gives {entry.name!r} and {principals[key].name!r} the same token"
                )
            principals[key] = Principal(
                name=entry.name,
                roles=frozenset(entry.roles),
                namespaces=frozenset(entry.namespaces),
                every_namespace=_EVERY in entry.namespaces,
            )
        return cls(principals)

    def known(self, token: str | None) -> Principal:
        """Return the token's caller. Raises UnauthenticatedError."""
        if token is None:
            raise UnauthenticatedError(
                "send the header Authorization: Bearer TOKEN with a token of the tokens file"
            )
        found = self._principals.get(digest(token))
        if found is None:
            raise UnauthenticatedError("this token is not in the broker's tokens file")
        return found

    async def authenticate(self, token: str | None) -> Principal:
        """Return the token's caller. Raises UnauthenticatedError."""
        return self.known(token)

    async def close(self) -> None:
        """Nothing to release."""


def _one_line(text: str) -> str:
    return " ".join(text.split())
