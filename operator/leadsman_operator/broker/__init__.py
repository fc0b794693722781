"""The operator's side of the broker: its stream of numbers, fences, and the rules of the queues, over HTTP only."""
