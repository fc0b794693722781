"""What the broker tells Prometheus. Labels are names that someone configured, or fixed words: all are bounded."""

from leadsman_broker.metrics.collector import BrokerCollector
from leadsman_broker.metrics.instruments import EngineMetrics, HttpMetrics

__all__ = ["BrokerCollector", "EngineMetrics", "HttpMetrics"]
