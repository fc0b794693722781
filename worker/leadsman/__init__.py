"""Leadsman for those who write agent steps: handlers, producers and the wire they speak."""

__version__ = "0.1.0"
