"""The parts that requests share, and how a route gets at them."""

from __future__ import annotations

from typing import Annotated, Protocol

from fastapi import Depends, HTTPException, Request

from envs.live.snapshot import ClusterSource, Snapshot
from serving.decide import Decider
from serving.logs import DecisionLog
from serving.observability import Metrics
from serving.recording import Recorder
from serving.reloading import LiveSettings, ModelKeeper
from serving.settings import Settings
from serving.slow_work import SlowWork
from serving.streams import Streams


class Background(Protocol):
    """Something that works while the application runs."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


class Sidecar:
    """What the settings say is asked for anew each time: they can change while requests go on."""

    def __init__(self, settings: Settings, source: ClusterSource, decider: Decider, metrics: Metrics) -> None:
        self.source = source
        self.decider = decider
        self.metrics = metrics
        self.streams = Streams()
        self.live = LiveSettings(settings, metrics.on_settings)
        self.models = ModelKeeper(decider, settings, metrics.on_reload)
        self.live.on_change(self.models.apply)
        decider.decisions.listen(DecisionLog(lambda: self.settings.logging))
        self.slow_work = SlowWork()
        self.background: list[Background] = [source, self.slow_work]
        if settings.recording.folder:
            recorder = Recorder(settings.recording, source, metrics.on_recorded)
            decider.decisions.listen(recorder)
            self.background.append(recorder)

    @property
    def settings(self) -> Settings:
        return self.live.current


def _sidecar(request: Request) -> Sidecar:
    sidecar: Sidecar = request.app.state.sidecar
    return sidecar


def _snapshot(request: Request) -> Snapshot:
    source = _sidecar(request).source
    snapshot = source.snapshot()
    if snapshot is None:
        unknown = "the state of the cluster is not known yet; GET /readyz says when"
        raise HTTPException(503, "; ".join((unknown, *source.problems())))
    return snapshot


TheSidecar = Annotated[Sidecar, Depends(_sidecar)]
TheSnapshot = Annotated[Snapshot, Depends(_snapshot)]
