"""The broker's judgement as a pure state machine: ordering, leases, attempts, admission, fences.

No module in here does I/O, reads a clock or draws a random number: rows come in, results and row changes go out,
time and randomness are arguments. The HTTP broker, the simulator and the property tests run these same lines.
"""
