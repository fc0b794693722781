"""How the SDK finds the broker, proves who it is, and reads what comes back."""
