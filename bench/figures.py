"""How a benchmark prints a figure: one JSON object a line, the same for all, so that a program can compare them."""

import json
import os
import platform


class Figures:
    """The figures of one benchmark.

    A line is {"bench", "metric", "value", "unit", "conditions"}. The conditions begin with the machine: cores,
    Python's version, and the load average of the last minute at the moment of printing.
    """

    def __init__(self, bench: str, **conditions: object) -> None:
        self._bench = bench
        self._conditions = {"cores": os.cpu_count(), "python": platform.python_version(), **conditions}

    def report(self, metric: str, value: float, unit: str, **conditions: object) -> None:
        """Print one figure with what else was so when it was measured."""
        line = {
            "bench": self._bench,
            "metric": metric,
            "value": round(value, 4),
            "unit": unit,
            "conditions": {**self._conditions, "load_1m": round(os.getloadavg()[0], 1), **conditions},
        }
        print(json.dumps(line), flush=True)
