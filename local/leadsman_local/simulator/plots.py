"""The curves of one or several simulations as a picture, PNG or SVG by the file's name."""

from collections.abc import Callable, Sequence
from pathlib import Path

from leadsman.errors import ConfigurationError
from leadsman_local.simulator.recorder import Point
from leadsman_local.simulator.world import World

_PANELS: tuple[tuple[str, Callable[[Point], float]], ...] = (
    ("tasks waiting", lambda point: point.depth),
    ("oldest task (s)", lambda point: point.oldest_age),
    ("replicas", lambda point: point.replicas),
    ("busy workers", lambda point: point.busy),
    ("idle workers", lambda point: max(0, point.ready - point.busy)),
    ("refused", lambda point: point.refused),
    ("spent (units)", lambda point: point.cost_micros / 1e6),
)
_TENANTS = 8
"""Shown; the rest would hide them."""


def draw(worlds: Sequence[World], path: Path) -> None:
    """Draw depth, age, fleet, refusals, money and tenants over time. Raises ConfigurationError."""
    if path.suffix not in {".png", ".svg"}:
        raise ConfigurationError(f"{path}: a plot is a .png or a .svg file")
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra; only plots need it
    except ImportError as error:
        raise ConfigurationError("plots need matplotlib: pip install 'leadsman[plots]'") from error
    names = [world.scenario.name or f"scenario {number}" for number, world in enumerate(worlds, 1)]
    tenants = sorted({tenant for world in worlds for tenant in world.recorder.tenant_waits})[:_TENANTS]
    panels = len(_PANELS) + bool(tenants)
    figure = Figure(figsize=(11, 1.8 * panels), layout="constrained")
    axes = figure.subplots(panels, 1, sharex=True)
    hours = worlds[0].scenario.duration_seconds > 7200
    scale = 3600 if hours else 1
    for axis, (title, value) in zip(axes, _PANELS, strict=False):
        for world, name in zip(worlds, names, strict=True):
            points = world.recorder.points
            axis.step([point.at / scale for point in points], [value(point) for point in points],
                      where="post", label=name, linewidth=1)  # fmt: skip
        axis.set_ylabel(title)
        axis.grid(visible=True, alpha=0.3)
    if tenants:
        for world, name in zip(worlds, names, strict=True):
            for tenant in tenants:
                points = world.recorder.points
                share = [point.tenants.get(tenant, 0) / max(1, sum(point.tenants.values())) for point in points]
                label = tenant if len(worlds) == 1 else f"{tenant}, {name}"
                axes[-1].step([point.at / scale for point in points], share, where="post", label=label, linewidth=1)
        axes[-1].set_ylabel("share in flight")
        axes[-1].legend(loc="upper right", fontsize="small")
    axes[-1].set_xlabel("hours" if hours else "seconds")
    axes[0].legend(loc="upper right", fontsize="small")
    try:
        figure.savefig(path)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}") from error
