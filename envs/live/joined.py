"""Several sources of metrics as one; where two know a column of a node, the first goes before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from envs.live.metrics import LiveMetrics, MetricsSource, Reading


class JoinedSources:
    """A ``MetricsSource``. The same parts give the same object, so that whoever reads it sees that nothing changed."""

    def __init__(self, sources: Sequence[MetricsSource]) -> None:
        self._sources = sources
        self._parts: tuple[LiveMetrics, ...] = ()
        self._joined = LiveMetrics()

    def start(self) -> None:
        for source in self._sources:
            source.start()

    def stop(self) -> None:
        for source in self._sources:
            source.stop()

    def newest(self) -> LiveMetrics:
        parts = tuple(source.newest() for source in self._sources)
        if len(parts) != len(self._parts) or any(new is not old for new, old in zip(parts, self._parts, strict=True)):
            self._parts, self._joined = parts, _joined(parts)
        return self._joined


def _joined(parts: Sequence[LiveMetrics]) -> LiveMetrics:
    columns: dict[str, Mapping[str, Reading]] = {}
    for part in reversed(parts):
        for name, readings in part.columns.items():
            columns[name] = {**columns.get(name, {}), **readings}
    pods = {name: use for part in reversed(parts) for name, use in part.pods.items()}
    return LiveMetrics(columns, pods, tuple(problem for part in parts for problem in part.problems))
