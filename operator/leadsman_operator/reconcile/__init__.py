"""Observe, decide, act: how a pool's objects and the broker's numbers become writes."""
