"""Finding the application that `module:app` names."""

import importlib
import sys
from pathlib import Path

from leadsman.app import App
from leadsman.errors import ConfigurationError


def load_app(target: str) -> App:
    """Import `module:attribute` (attribute defaults to `app`), looking in the current folder first.

    Raises ConfigurationError. An exception of the module's own code passes through, for its traceback.
    """
    module_name, _, attribute = target.partition(":")
    attribute = attribute or "app"
    if not module_name or module_name.endswith(".py") or "/" in module_name:
        raise ConfigurationError(
            f"{target!r} is no MODULE:APP; for handlers.py with `app = App()` say handlers:app"
        )
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise ConfigurationError(
            f"there is no module {module_name!r} in {folder} or on PYTHONPATH; check MODULE:APP"
        ) from error
    found = getattr(module, attribute, None)
    if found is None:
        raise ConfigurationError(f"the module {module_name!r} has no {attribute!r}; it needs `{attribute} = App()`")
    if not isinstance(found, App):
        raise ConfigurationError(f"{target} is {type(found).__name__}, not a leadsman.App")
    return found
