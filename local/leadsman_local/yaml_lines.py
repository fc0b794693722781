"""YAML files read so that a mistake can be told with its file, line and field."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from leadsman.errors import ConfigurationError

M = TypeVar("M", bound=BaseModel)
Place = tuple[int | str, ...]
"""Where in a document: keys and indices from the top."""


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document with the lines of its fields."""

    path: Path
    data: Any
    lines: Mapping[Place, int]

    def line(self, place: Place) -> int:
        """Return the line of a field; of the nearest one around it when the field itself is not there."""
        for length in range(len(place), -1, -1):
            if place[:length] in self.lines:
                return self.lines[place[:length]]
        return 1

    def wrong(self, place: Place, message: str) -> ConfigurationError:
        """Return the error for a field: one line with file, line and field."""
        field = ".".join(str(part) for part in place) or "the top level"
        return ConfigurationError(f"{self.path}:{self.line(place)}: {field}: {message}")

    def parse(self, model: type[M]) -> M:
        """Read it as a model. Raises ConfigurationError for the first field that is wrong or unknown."""
        for place in unknown_fields(model, self.data):
            raise self.wrong(place, "there is no such field")
        try:
            return model.model_validate(self.data)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            place = tuple(part for part in first["loc"] if part != "function-after")
            raise self.wrong(place, first["msg"].removeprefix("Value error, ")) from error


def read(path: Path) -> list[Document]:
    """Read every document of a file. Raises ConfigurationError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(f"cannot read {path}: {why}") from error
    try:
        nodes = [node for node in yaml.compose_all(text, Loader=yaml.SafeLoader) if node is not None]
        found = []
        for node in nodes:
            lines: dict[Place, int] = {}
            _lines(node, (), lines, path)
            found.append(Document(path, _construct(node), lines))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 1
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise ConfigurationError(f"{path}:{line}: this is not YAML: {problem}") from error
    return found


def unknown_fields(model: type[BaseModel], data: Any, place: Place = ()) -> Iterator[Place]:
    """Name the fields of `data` that a model, and the models in it, do not have.

    Reading alone lets them pass where objects may come from a newer version; in a file that a person has just
    written they are mistakes.
    """
    if not isinstance(data, Mapping):
        return
    fields = {}
    for name, field in model.model_fields.items():
        fields[field.alias or name] = field.annotation
    for key, value in data.items():
        if key not in fields:
            yield (*place, key)
            continue
        yield from _unknown_in(fields[key], value, (*place, key))


def _unknown_in(annotation: Any, value: Any, place: Place) -> Iterator[Place]:
    inner = _model_in(annotation)
    if inner is None:
        return
    if isinstance(value, Mapping):
        if _is_mapping(annotation):
            for key, each in value.items():
                yield from unknown_fields(inner, each, (*place, key))
        else:
            yield from unknown_fields(inner, value, place)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for number, each in enumerate(value):
            yield from unknown_fields(inner, each, (*place, number))


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        found = _model_in(argument)
        if found is not None:
            return found
    return None


def _is_mapping(annotation: Any) -> bool:
    if getattr(annotation, "__origin__", annotation) in {dict, Mapping}:
        return True
    return any(_is_mapping(argument) for argument in get_args(annotation) if not isinstance(argument, type))


def _lines(node: yaml.Node, place: Place, lines: dict[Place, int], path: Path) -> None:
    lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*place, str(key.value))
            if here in lines:
                line = key.start_mark.line + 1
                raise ConfigurationError(f"{path}:{line}: {'.'.join(map(str, here))}: given twice")
            lines[here] = key.start_mark.line + 1
            _lines(value, here, lines, path)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            _lines(value, (*place, number), lines, path)


def _construct(node: yaml.Node) -> Any:
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_document(node)
    finally:
        loader.dispose()
