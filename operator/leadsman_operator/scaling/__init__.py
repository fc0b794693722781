"""How many workers a pool should have and which may go: pure decisions."""
