"""The simulator: the real broker core and the real scaling decisions on a virtual clock."""
