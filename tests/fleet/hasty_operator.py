"""The operator, which gives up sooner on a ReplicaSet controller that shows nothing: for a test that it does.

Nothing else of it is other than in a pod.
"""

import importlib
from typing import Any

from leadsman_operator import cli

_SECONDS = 6.0

if __name__ == "__main__":
    # The package has a function of the module's name.
    advance: Any = importlib.import_module("leadsman_operator.scaling.advance")
    assert advance.EVIDENCE_DEADLINE_SECONDS > _SECONDS
    advance.EVIDENCE_DEADLINE_SECONDS = _SECONDS
    cli.main()
