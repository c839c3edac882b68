"""What may go wrong beside a scheduler, one fault a function.

Each is a context: inside it the fault has ended, and whoever broke something puts it right after it. What is yielded
says whether the sidecar knows what it must know to have recovered, beside deciding by its policy again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from models.manifest import MODEL_FILE
from tests.cluster.api import eventually
from tests.cluster.objects import NODES, cordon, create_nodes, darken, lighten, usable_nodes
from tests.cluster.proving_ground import POLICY, ProvingGround
from tests.cluster.tape_objects import node_number, node_of

Recovered = Callable[[], bool]
Context = Callable[[ProvingGround, float], AbstractContextManager[Recovered]]

TEN_MINUTES_S = 600.0
GARBAGE = b"\x00this is no model" * 64


@dataclass(frozen=True)
class Fault:
    name: str
    happen: Context  # for so many seconds
    lasts_s: float
    short_s: float | None  # in `make test`; None: only in `make faults`


def by_itself() -> bool:
    """Nothing to know."""
    return True


@contextmanager
def sidecar_killed(ground: ProvingGround, lasts_s: float) -> Iterator[Recovered]:
    ground.parts["pilotfish"].kill(lasts_s)
    time.sleep(lasts_s)
    yield by_itself


@contextmanager
def sidecar_paused(ground: ProvingGround, lasts_s: float) -> Iterator[Recovered]:
    _pause(ground, "pilotfish", lasts_s)
    yield by_itself


@contextmanager
def prometheus_killed(ground: ProvingGround, lasts_s: float) -> Iterator[Recovered]:
    ground.parts["prometheus"].kill(lasts_s)
    time.sleep(lasts_s)
    _assert_the_policy_gave_way(ground)
    yield by_itself


@contextmanager
def api_server_killed(ground: ProvingGround, lasts_s: float) -> Iterator[Recovered]:
    ground.parts["kube-apiserver"].kill(lasts_s)
    time.sleep(lasts_s)
    yield by_itself


@contextmanager
def etcd_paused(ground: ProvingGround, lasts_s: float) -> Iterator[Recovered]:
    _pause(ground, "etcd", lasts_s)
    yield by_itself


@contextmanager
def model_garbage(ground: ProvingGround, lasts_s: float) -> Iterator[Recovered]:
    """First the running sidecar meets it, then one that starts."""
    file = ground.model / MODEL_FILE
    good = file.read_bytes()
    file.write_bytes(GARBAGE)
    eventually(ground.model_problems, "the sidecar's word about its model")
    time.sleep(lasts_s)
    assert ground.decisions(1)[0]["source"] == POLICY, "a model in use was given up for a file that is none"
    ground.parts["pilotfish"].kill()
    eventually(lambda: ground.decisions(1), "a decision of a sidecar that never had a model", within_s=60.0)
    _assert_the_policy_gave_way(ground)
    file.write_bytes(good)
    yield lambda: not ground.model_problems()


@contextmanager
def node_cordoned(ground: ProvingGround, lasts_s: float) -> Iterator[Recovered]:
    node = _favourite(ground)
    cordon(ground.admin, node)
    try:
        yield lambda: _is_closed(ground, node)
    finally:
        cordon(ground.admin, node, cordoned=False)


@contextmanager
def node_not_ready(ground: ProvingGround, lasts_s: float) -> Iterator[Recovered]:
    node = _favourite(ground)
    darken(ground.admin, node)
    try:
        yield lambda: _is_closed(ground, node)
    finally:
        lighten(ground.admin, node)
        eventually(lambda: node in usable_nodes(ground.admin), f"{node} Ready again")


@contextmanager
def node_removed(ground: ProvingGround, lasts_s: float) -> Iterator[Recovered]:
    node = _favourite(ground)
    ground.admin.delete(f"{NODES}/{node}")
    try:
        yield lambda: ground.node_as_the_sidecar_knows_it(node) == {}
    finally:
        create_nodes(ground.admin, [node_of(ground.tape, node_number(node))])


@contextmanager
def exporter_clock_behind(ground: ProvingGround, lasts_s: float) -> Iterator[Recovered]:
    _wrong_clock(ground, -TEN_MINUTES_S, lasts_s)
    yield by_itself


@contextmanager
def exporter_clock_ahead(ground: ProvingGround, lasts_s: float) -> Iterator[Recovered]:
    _wrong_clock(ground, TEN_MINUTES_S, lasts_s)
    yield by_itself


FAULTS = (
    Fault("sidecar killed", sidecar_killed, lasts_s=0.0, short_s=0.0),
    Fault("sidecar paused", sidecar_paused, lasts_s=10.0, short_s=None),
    Fault("Prometheus killed", prometheus_killed, lasts_s=60.0, short_s=10.0),
    Fault("API server killed", api_server_killed, lasts_s=5.0, short_s=2.0),
    Fault("etcd paused", etcd_paused, lasts_s=5.0, short_s=5.0),
    Fault("model file garbage", model_garbage, lasts_s=5.0, short_s=None),
    Fault("node cordoned", node_cordoned, lasts_s=0.0, short_s=None),
    Fault("node NotReady", node_not_ready, lasts_s=0.0, short_s=0.0),
    Fault("node removed", node_removed, lasts_s=0.0, short_s=None),
    Fault("exporter's clock 10 min behind", exporter_clock_behind, lasts_s=15.0, short_s=None),
    Fault("exporter's clock 10 min ahead", exporter_clock_ahead, lasts_s=15.0, short_s=None),
)


def _pause(ground: ProvingGround, part: str, lasts_s: float) -> None:
    daemon = ground.parts[part].daemon
    daemon.pause()
    try:
        time.sleep(lasts_s)
    finally:
        daemon.resume()


def _wrong_clock(ground: ProvingGround, ahead_s: float, lasts_s: float) -> None:
    ground.exporter.clock_ahead_s = ahead_s
    try:
        time.sleep(lasts_s)
        _assert_the_policy_gave_way(ground)
    finally:
        ground.exporter.clock_ahead_s = None


def _assert_the_policy_gave_way(ground: ProvingGround) -> None:
    """A fault that nothing shows would prove nothing."""
    newest = ground.decisions(1)
    assert newest, "the sidecar does not answer"
    assert newest[0]["source"] != POLICY, "the sidecar decides as if nothing were wrong"


def _favourite(ground: ProvingGround) -> str:
    """The node that the sidecar wanted last: the next pods would go there."""
    best: str = eventually(lambda: ground.decisions(1), "a decision")[0]["best"]
    return best


def _is_closed(ground: ProvingGround, node: str) -> bool:
    known = ground.node_as_the_sidecar_knows_it(node)
    return bool(known) and not known["schedulable"]
