"""The harness's own errors, so that a caller can tell "cannot run here" from "broke while running"."""


class ClusterError(Exception):
    """Something that should have worked did not; the message says what and shows the evidence."""

    code = "cluster_error"


class UnavailableError(ClusterError):
    """This machine lacks something the tier needs; the message names it. Tests skip with it."""

    code = "unavailable"
