"""Handlers in processes of their own: whatever one does to its process, the worker and its other leases go on.

The worker forks a nursery before it has threads. For each attempt the nursery forks a keeper, and the keeper forks
the handler: the nursery is always young and single-threaded, so that a fork is safe and costs milliseconds, and the
keeper sees to it that nothing which the handler started outlives it.
"""
