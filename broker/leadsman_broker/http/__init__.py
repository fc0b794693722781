"""The broker over HTTP/1.1 and JSON."""
