"""What happens to a broker, and what must hold whatever happens: every module here is part of every schedule."""

from importlib import import_module
from pkgutil import iter_modules

from core_simulation.feature import Feature

FEATURES: dict[str, type[Feature]] = {
    module.name: import_module(f"{__name__}.{module.name}").FEATURE for module in iter_modules(__path__)
}
