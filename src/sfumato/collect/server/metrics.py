"""Metrics: counts of what the server did, in the text form that Prometheus reads."""

from __future__ import annotations

import time
from collections.abc import Iterator

from sfumato.collect.server.collector import Collector


def exposition(collector: Collector) -> str:
    """Every count as text, with nothing about any single request."""
    return "".join(f"{line}\n" for line in _lines(collector))


def _lines(collector: Collector) -> Iterator[str]:
    metrics, writer = collector.metrics, collector.writer
    yield from _gauge("uptime_seconds", "since the start", time.monotonic() - metrics.started)
    yield from _head("reports", "gauge", "reports in the store")
    for name, served in collector.served.items():
        yield f'sfumato_reports{{campaign="{name}"}} {served.tally.rows}'
    yield from _head("report_requests_total", "counter", "requests to the report route")
    yield f"sfumato_report_requests_total {metrics.requests}"
    yield from _head("refused_requests_total", "counter", "of these, refused, by status")
    for status, count in sorted(metrics.refused.items()):
        yield f'sfumato_refused_requests_total{{status="{status}"}} {count}'
    yield from _head("commits_total", "counter", "transactions written")
    yield f"sfumato_commits_total {writer.commits}"
    yield from _head("failed_commits_total", "counter", "transactions that failed")
    yield f"sfumato_failed_commits_total {writer.failures}"
    yield from _gauge("waiting_reports", "reports waiting to be written", writer.waiting)
    yield from _gauge("taking_reports", "whether the store commits", int(writer.failed is None))
    yield from _gauge("store_bytes", "size of the store", collector.store.size())


def _gauge(name: str, words: str, value: float) -> Iterator[str]:
    yield from _head(name, "gauge", words)
    yield f"sfumato_{name} {value:g}" if isinstance(value, float) else f"sfumato_{name} {value}"


def _head(name: str, kind: str, words: str) -> Iterator[str]:
    yield f"# HELP sfumato_{name} {words}"
    yield f"# TYPE sfumato_{name} {kind}"
