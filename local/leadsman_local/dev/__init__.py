"""Local mode: the broker, the scaler and a fleet of processes on one computer, from the unchanged YAML."""
