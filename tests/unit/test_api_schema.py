"""The generated schemas: structural, bounded, documented, and the files in the repository are theirs."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
import yaml
from pydantic import Field

from leadsman_operator.api.base import ApiModel
from leadsman_operator.api.crds import KINDS, definition, schema_of
from leadsman_operator.api.generate import generated, main
from leadsman_operator.api.schema import SchemaError, structural

ROOT = Path(__file__).resolve().parents[2]


def fields(schema, path=""):
    """Every field below `schema`, with its path."""
    for name, field in schema.get("properties", {}).items():
        yield f"{path}.{name}", field
        yield from fields(field, f"{path}.{name}")
    if "items" in schema:
        yield f"{path}[]", schema["items"]
        yield from fields(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield f"{path}{{}}", schema["additionalProperties"]


def ours():
    for kind in KINDS:
        schema = schema_of(kind)
        for part in ("spec", "status"):
            yield from fields(schema["properties"][part], f"{kind.name}.{part}")


def test_every_list_and_string_is_bounded():
    for path, field in ours():
        if field.get("type") == "array":
            assert "maxItems" in field, path
        if field.get("type") == "string" and "enum" not in field:
            assert "maxLength" in field, path
        if "additionalProperties" in field:
            assert "maxProperties" in field, path


def test_numbers_are_whole_and_bounded():
    for path, field in ours():
        assert field.get("type") != "number", path
        if field.get("type") == "integer":
            assert "minimum" in field, path
            assert field["format"] in {"int32", "int64"}, path
            if field["format"] == "int32":
                assert field["maximum"] <= 2**31 - 1, path


def test_lists_say_how_they_merge():
    for path, field in ours():
        if field.get("type") == "array" and "template" not in path:
            assert "x-kubernetes-list-type" in field, path


def test_every_field_says_what_it_is():
    for path, field in ours():
        if not path.endswith(("[]", "{}")):
            assert field["description"].endswith("."), path
            assert "\n" not in field["description"], path


def test_durations_carry_their_unit():
    for path, field in ours():
        name = path.rpartition(".")[2]
        assert not name.endswith(("Timeout", "Duration", "Period", "Grace", "Age")), path
        assert field.get("format") != "duration", path


def test_a_status_is_never_filled_in():
    for kind in KINDS:
        for path, field in fields(schema_of(kind)["properties"]["status"], "status"):
            assert "default" not in field, path


def test_a_definition_is_well_below_the_limit():
    for kind in KINDS:
        assert len(yaml.safe_dump(definition(kind))) < 64 * 1024


def test_the_files_in_the_repository_are_the_generated_ones():
    for name, text in generated().items():
        assert (ROOT / name).read_text() == text, f"{name} is out of date: run `make crds`"


def test_the_check_says_what_differs_and_fails(tmp_path, capsys):
    assert main(["--root", str(tmp_path)]) == 0
    assert main(["--root", str(tmp_path), "--check"]) == 0
    path = tmp_path / "crds" / "leadsman.dev_workerpools.yaml"
    path.write_text(path.read_text().replace("maximum: 10000", "maximum: 99"))
    capsys.readouterr()

    assert main(["--root", str(tmp_path), "--check"]) == 1

    shown = capsys.readouterr()
    assert "-                  maximum: 99" in shown.out
    assert "run `make crds`" in shown.err


def test_the_generator_runs_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "leadsman_operator.api.generate", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_charts_copy_is_guarded_and_kept():
    text = (ROOT / "charts/leadsman/templates/crds.yaml").read_text()

    assert text.count("{{- if .Values.crds.install }}") == 1
    assert text.count("helm.sh/resource-policy: keep") == len(KINDS)
    assert text.rstrip().endswith("{{- end }}")


def test_the_charts_copy_says_the_same_as_the_files():
    text = (ROOT / "charts/leadsman/templates/crds.yaml").read_text()
    plain = "\n".join(line for line in text.splitlines() if not line.startswith("{{"))

    in_chart = list(yaml.safe_load_all(plain))
    for document in in_chart:
        assert document["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert in_chart == [yaml.safe_load((ROOT / "crds" / kind.file_name).read_text()) for kind in KINDS]


class _Choice(ApiModel):
    """A model no CRD can express."""

    value: Annotated[int, Field(ge=0)] | Annotated[str, Field(max_length=3)]
    """Either."""


class _Open(ApiModel):
    """A map without a bound."""

    labels: dict[str, str]
    """Any number."""


@pytest.mark.parametrize(
    ("model", "words"), [(_Choice, "a choice between types"), (_Open, "a map without a bound")]
)
def test_what_a_crd_cannot_express_is_an_error_when_it_is_generated(model, words):
    class Kind(ApiModel):
        """A kind."""

        metadata: dict[str, str]
        spec: model
        """Its spec."""

    with pytest.raises(SchemaError, match=words):
        structural(Kind)
