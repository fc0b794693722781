"""The broker: a queue per capability, leases with heartbeats, and durable outcomes."""
