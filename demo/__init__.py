"""`make demo`: the whole system on a real Kubernetes in a few minutes, with every closing number counted.

It only drives what a user drives: kubectl, helm, the SDK and the broker's HTTP API.
"""
