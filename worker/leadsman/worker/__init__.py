"""The worker: leases tasks for its free slots, runs handlers, keeps the leases alive, and goes in good order.

Three threads beside the one that runs the handlers' event loop: heartbeats (which no handler can hold up), the
health server, and a pool for sync handlers. Leasing and settling are coroutines on the loop.
"""
