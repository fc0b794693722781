"""The operator: sizes every worker pool from its queues and takes away only workers that hold no lease."""
