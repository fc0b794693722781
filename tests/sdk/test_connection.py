"""Where the broker is, as whom we go there, and what its answers mean."""

import os
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadsman.connection.address import resolve
from leadsman.connection.backoff import Backoff, jittered, later
from leadsman.connection.replies import failure, is_temporary
from leadsman.connection.token import TokenSource
from leadsman.errors import (
    BrokerUnreachableError,
    ConfigurationError,
    ForbiddenError,
    InvalidRequestError,
    NotFoundError,
    UnauthenticatedError,
    UnavailableError,
)

URL = "http://broker:8080"


def problem(status, code="some_code", detail="what to do", **more):
    import json

    return json.dumps({"title": "x", "status": status, "code": code, "detail": detail, **more}).encode()


def test_arguments_come_before_the_environment_before_defaults():
    env = {"LEADSMAN_BROKER_URL": "http://env:1", "LEADSMAN_NAMESPACE": "env", "LEADSMAN_TOKEN": "t"}
    assert resolve(environment={}).url == "http://127.0.0.1:8080"
    assert resolve(environment={}).namespace == "default"
    assert resolve(environment=env).url == "http://env:1"
    assert resolve("http://arg:2/", "arg", environment=env).url == "http://arg:2"
    assert resolve(environment=env).token.headers() == {"Authorization": "Bearer t"}
    assert resolve(environment={}).token.headers() == {}


def test_a_prefix_in_the_address_is_kept_and_parts_are_escaped():
    address = resolve("https://gate.example/leadsman/", "agents", environment={})
    assert address.path("tasks", "a/b c") == "/leadsman/v1/namespaces/agents/tasks/a%2Fb%20c"


@pytest.mark.parametrize(
    "url",
    [
        "broker:8080",
        "ftp://x",
        "http://",
        "http://x:99999",
        "http://x/?a=1",
        "http://[::1",
        "http://a b",
        "http://" + "x" * 70,
    ],
)
def test_an_address_no_broker_can_have_is_refused(url):
    with pytest.raises(ConfigurationError, match="is no broker address; it looks like http"):
        resolve(url, environment={})


def test_a_wrong_namespace_is_refused():
    with pytest.raises(ConfigurationError, match="LEADSMAN_NAMESPACE"):
        resolve(namespace="A", environment={})


def test_a_token_and_a_token_file_together_are_refused():
    with pytest.raises(ConfigurationError, match="not both"):
        resolve(token="a", token_file="b", environment={})


@pytest.mark.parametrize("token", ["a b", "a\nb", "ü", " "])
def test_a_token_that_no_header_can_carry_is_refused(token):
    with pytest.raises(ConfigurationError, match="printable ASCII"):
        resolve(token=token, environment={})


def test_a_rotated_token_is_read_again(tmp_path):
    file = tmp_path / "token"
    file.write_text("first\n")
    source = TokenSource(file=file)
    assert source.current() == "first"
    replacement = tmp_path / "new"
    replacement.write_text("other\n")
    os.utime(replacement, ns=(file.stat().st_mtime_ns, file.stat().st_mtime_ns))
    replacement.replace(file)  # as the kubelet does it: another file in the same place
    assert source.current() == "other"


@pytest.mark.parametrize("content", [b"", b"two words", b"a\nb", b"\xff\xfe"])
def test_a_token_file_that_holds_no_token_is_told(tmp_path, content):
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(ConfigurationError, match="check LEADSMAN_TOKEN_FILE or --token-file"):
        TokenSource(file=file).current()


def test_a_token_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ConfigurationError, match="No such file or directory"):
        TokenSource(file=tmp_path / "nope").current()


@pytest.mark.parametrize(
    ("status", "kind", "temporary"),
    [
        (400, InvalidRequestError, False),
        (401, UnauthenticatedError, False),
        (403, ForbiddenError, False),
        (404, NotFoundError, False),
        (413, InvalidRequestError, False),
        (422, InvalidRequestError, False),
        (500, UnavailableError, True),
        (503, UnavailableError, True),
        (507, UnavailableError, True),
    ],
)
def test_a_problem_becomes_an_error_with_the_broker_s_code(status, kind, temporary):
    error = failure(status, "7", problem(status), url=URL)
    assert type(error) is kind
    assert error.code == "some_code"
    assert error.retry_after_s == 7
    assert "what to do" in str(error)
    assert is_temporary(error) is temporary


def test_the_first_field_at_fault_is_in_the_message():
    body = problem(422, detail="the request is invalid", errors=[{"field": "tasks.0.x", "message": "no"}])
    assert str(failure(422, None, body, url=URL)) == "the request is invalid (tasks.0.x: no)"


def test_a_page_that_is_no_problem_document_is_no_broker():
    error = failure(404, None, b"<html>nginx</html>", url=URL)
    assert isinstance(error, BrokerUnreachableError)
    assert "is no Leadsman broker" in str(error)


def test_a_gateway_s_error_page_is_temporary():
    assert is_temporary(failure(502, None, b"<html>", url=URL))


def test_every_message_is_one_line():
    assert "\n" not in str(failure(422, None, problem(422, detail="a\nb"), url=URL))


@given(st.integers(0, 60), st.integers())
def test_backoff_grows_to_its_ceiling_and_is_never_twice_the_same_for_all(failures, seed):
    random.seed(seed)
    backoff = Backoff(base_seconds=0.1, max_seconds=5.0)
    waits = [backoff.next() for _ in range(failures + 1)]
    for attempt, wait in enumerate(waits):
        ceiling = min(5.0, 0.1 * 2.0**attempt)
        assert ceiling / 2 <= wait <= ceiling


def test_a_hundred_workers_do_not_come_back_in_one_wave():
    waits = sorted(Backoff(base_seconds=5.0).next() for _ in range(100))
    assert waits[-1] - waits[0] > 1.0
    assert len(set(waits)) > 90


@given(st.floats(0.001, 1000))
def test_jitter_stays_within_its_share(seconds):
    assert seconds * 0.9 <= jittered(seconds) <= seconds * 1.1
    assert seconds <= later(seconds) <= seconds * 1.25
