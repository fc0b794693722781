"""In a container the operator is a number without a line in /etc/passwd: nothing may ask for its name."""

from types import SimpleNamespace

import kopf
import pytest

from leadsman_operator.application import Application


class SpawnedError(Exception):
    """kopf was asked to begin."""


class Bare(Application):
    """The application with nothing but what watching needs."""

    def __init__(self):
        self._settings = SimpleNamespace(namespaces=(), identity="operator-0")
        self._parts = SimpleNamespace(feed=None)
        self._kopf_login = None


async def test_kopf_is_given_an_identity_and_need_not_look_up_the_users_name(monkeypatch):
    given = {}

    async def spawn(**options):
        given.update(options)
        raise SpawnedError

    monkeypatch.setattr(kopf, "spawn_tasks", spawn)
    with pytest.raises(SpawnedError):
        await Bare()._watch()
    assert given["identity"] == "operator-0"
