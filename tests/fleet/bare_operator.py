"""The operator with its scale-in protocol replaced by a bare replica change, for the test that must fail.

    python -m fleet.bare_operator run ...

Everything else is the real program: what it decides, when, and how it writes.
"""

import sys

from leadsman_operator.cli import main
from leadsman_operator.scaling.advance import Step, _lower, _start
from leadsman_operator.scaling.scale_in import Idle, Operation, ScaleInView


def lower_at_once(state: Idle, view: ScaleInView, now: float) -> Step:
    """Start and end a scale-in in one step: no fence, no evidence, the controller takes whom it likes."""
    observation = view.observation
    operation = Operation(
        id=view.operation,
        epoch="",
        from_replicas=observation.replicas,
        target=view.decision.replicas,
        before=state.readiness,
    )
    return _lower(operation, view, operation.target, now)


if __name__ == "__main__":
    protocol = sys.modules[_start.__module__]
    assert protocol._start is _start, "the protocol starts elsewhere now; replace it there"
    protocol._start = lower_at_once
    main()
