"""The only code that talks to Kubernetes."""
