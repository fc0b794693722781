"""Capabilities from a file, for a broker without an operator.

default:                  # a namespace
  - name: browser
    lease_seconds: 120
  - name: llm             # everything else has its default
"""

from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field, TypeAdapter, ValidationError

from leadsman.wire.base import Name
from leadsman.wire.capabilities import CapabilityConfig
from leadsman_broker.cli.settings import SettingsError

Capabilities = dict[str, tuple[CapabilityConfig, ...]]

_FILE = TypeAdapter(dict[Name, Annotated[list[CapabilityConfig], Field(max_length=10_000)]])


def read_capabilities(path: Path) -> Capabilities:
    """Return the capabilities by namespace. Raises SettingsError with the place of the mistake."""
    try:
        found = _FILE.validate_python(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise SettingsError(f"cannot read the capabilities file {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"the capabilities file {path} is not YAML: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the top level"
        raise SettingsError(f"the capabilities file {path} is wrong at {where}: {first['msg']}") from error
    for namespace, capabilities in found.items():
        names = [capability.name for capability in capabilities]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise SettingsError(
                f"the capabilities file {path} gives {', '.join(sorted(twice))} twice in namespace {namespace}"
            )
    return {namespace: tuple(capabilities) for namespace, capabilities in found.items()}
