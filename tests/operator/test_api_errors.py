"""What the API server's refusals mean to us."""

import pytest

from leadsman_operator.kube.errors import ApiError


def refusal(status, message="", reason="", causes=()):
    return ApiError.from_body(
        status,
        "Reason",
        {"kind": "Status", "reason": reason, "message": message, "details": {"causes": list(causes)}},
    )


def test_a_conflict_with_other_managers_names_them():
    cause = {
        "reason": "FieldManagerConflict",
        "message": 'conflict with "kubectl" with subresource "scale" using apps/v1',
    }
    assert refusal(409, causes=[cause]).other_managers == ["kubectl"]
    assert refusal(409, "the object has been modified").other_managers == []


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (refusal(422, "Deployment is invalid"), True),
        (refusal(400, "cannot unmarshal"), True),
        (refusal(500, "failed to create typed patch object: .spec.x: field not declared in schema"), True),
        (refusal(500, "etcdserver: leader changed"), False),
        (refusal(503, "later"), False),
        (refusal(429, "too many requests"), False),
        (refusal(403, 'admission webhook "x" denied the request: no', reason="Forbidden"), True),
        (refusal(403, "namespace ns is being terminated", reason="Forbidden"), False),
    ],
)
def test_only_what_its_author_must_change_is_refused_for_good(error, refused):
    assert error.refused is refused


def test_a_page_of_a_proxy_is_an_error_like_any_other():
    error = ApiError.from_body(502, "Bad Gateway", "<html>")
    assert (error.status, error.reason) == (502, "Bad Gateway")
    assert not error.refused
