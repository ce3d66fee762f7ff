# SPDX-License-Identifier: Apache-2.0
"""torch.hpu.metrics, as Gaudi's bridge has it: metric_global(name).stats() is a list of (what, number); times are microseconds.

graph_compilation: TotalNumber, TotalTime, AvgTime. cpu_fallback: TotalNumber, FallbackOps {op: calls}. recipe_cache: TotalHit, TotalMiss.
memory_defragmentation: TotalNumber (times that the cache was given back for an allocation), TotalSuccessful (of these, the ones that helped)."""
import atexit
import contextlib
import enum
import json
import os
import time

from .. import _C


class MetricNotFound(Exception):
    pass


class MetricDumpFormat(enum.Enum):
    json = "json"
    text = "text"


def _compilation(total):
    number, micros = total["compiles"], int(total["compile_ms"] * 1000)
    return [("TotalNumber", number), ("TotalTime", micros), ("AvgTime", micros / number if number else 0)]


def _fallback(total):
    ops = {op[len("calls of "):]: calls for op, calls in total.items() if op.startswith("calls of ") and calls}
    return [("TotalNumber", sum(ops.values())), ("FallbackOps", ops)]


def _cache(total):
    return [("TotalHit", total["cache_hits"]), ("TotalMiss", total["compiles"])]


def _memory(total):
    return [("TotalNumber", total["retries"]), ("TotalSuccessful", max(0, total["retries"] - total["failures"]))]


_SHAPES = {"graph_compilation": _compilation, "cpu_fallback": _fallback, "recipe_cache": _cache, "memory_defragmentation": _memory}


def _totals():
    """All counters of the process, flat."""
    counts = _C.record_counts()
    result = {key: counts[key] for key in ("compiles", "compile_ms", "cache_hits")}
    for op, count in _C.fallback_counts().items():
        result["calls of " + op] = count["calls"]
    stats = [_C.memory_stats(i) for i in range(_C.device_count())]
    result["retries"], result["failures"] = sum(s.retries for s in stats), sum(s.failures for s in stats)
    return result


class Metric:
    """Counts while it is started; others that count the same are not in its way."""

    def __init__(self, name, from_start=False):
        self._name, self._sum, self._since = name, {}, {} if from_start else _totals()

    def name(self):
        return self._name

    def start(self):
        if self._since is None:
            self._since = _totals()

    def stop(self):
        if self._since is not None:
            self._sum, self._since = self._now(), None

    def reset(self):
        self._sum = {}
        self._since = None if self._since is None else _totals()

    def _now(self):
        result = dict(self._sum)
        if self._since is not None:
            for key, value in _totals().items():
                before = self._since.get(key, 0)
                result[key] = result.get(key, 0) + (value - before if value >= before else value)  # Someone has reset the counters.
        return result

    def stats(self):
        zeros = dict(compiles=0, compile_ms=0., cache_hits=0, retries=0, failures=0)
        return _SHAPES[self._name]({**zeros, **self._now()})

    def __repr__(self):
        return f"{self._name}: {dict(self.stats())}"


_global = {}


def _checked(name):
    name = {"gc": "graph_compilation"}.get(name, name)
    if name not in _SHAPES:
        raise MetricNotFound(f"there is no metric {name!r}; there are {', '.join(sorted(_SHAPES))}")
    return name


def metric_global(name):
    """Of the process, from its beginning."""
    name = _checked(name)
    if name not in _global:
        _global[name] = Metric(name, from_start=True)
    return _global[name]


@contextlib.contextmanager
def metric_localcontext(name):
    """with metric_localcontext("graph_compilation") as metric: ...; metric.stats() counts what was in it."""
    metric = Metric(_checked(name))
    try:
        yield metric
    finally:
        metric.stop()


def metrics_dump(file_name, format=MetricDumpFormat.json, trigger="user"):
    """Appends all global metrics to a file, a line of JSON (or of text) for each."""
    kind = format if isinstance(format, MetricDumpFormat) else MetricDumpFormat(format)
    with open(file_name, "a") as file:
        for name in _SHAPES:
            entry = {"metric_name": name, "triggered_by": trigger, "generated_on": time.strftime("%Y-%m-%dT%H:%M:%S"), "statistics": dict(metric_global(name).stats())}
            file.write(json.dumps(entry) + "\n" if kind is MetricDumpFormat.json else f"{name} ({trigger}): {entry['statistics']}\n")


def install():
    """PT_HPU_METRICS_FILE: metrics are written there when the process ends (PT_HPU_METRICS_FILE_FORMAT: json, the default, or text)."""
    path = os.environ.get("PT_HPU_METRICS_FILE")
    if path:
        for name in _SHAPES:
            metric_global(name)
        process = os.getpid()
        kind = os.environ.get("PT_HPU_METRICS_FILE_FORMAT", "json").lower()
        atexit.register(lambda: os.getpid() == process and metrics_dump(path, kind if kind in ("json", "text") else "json", "process_exit"))
