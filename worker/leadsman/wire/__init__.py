"""What travels between producers, workers, the operator and the broker: HTTP/1.1 and JSON, one model per body.

The models are the protocol: the broker validates requests with them, the SDK builds requests from them and the
OpenAPI document is generated from them. Durations are seconds; no message carries a clock reading that another
machine would have to trust.
"""
