"""Coverage-guided fuzzing of what turns bytes from the network into requests: `python -m decoder_fuzz`."""
