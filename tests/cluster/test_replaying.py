"""A tape replayed on a real control plane: its pods come, are placed by whoever schedules, and leave in time."""

import itertools
import threading
import time
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from envs.workloads.scenario import load_scenario
from envs.workloads.synthetic import make_tape
from tests.cluster.api import eventually
from tests.cluster.processes import NotReady
from tests.cluster.replaying import CREATED_AT_ONCE, Replay, arriving, first_placements, replaying
from tests.cluster.tape_objects import pod_number

SPEED = 40.0
TAPE_S = 280.0  # the first burst comes within it
NAMESPACE = "replayed"


@pytest.fixture(scope="module")
def tape():
    return replace(make_tape(load_scenario("bursts"), 1_000_000, 0), horizon_s=np.asarray(TAPE_S))


def an_empty_replay() -> Replay:
    """Of a tape without pods that is over at once."""
    tape = SimpleNamespace(horizon_s=0.0, pod_slots=0)
    exporter = SimpleNamespace(truth=SimpleNamespace(begun=False, clock_s=0.0), nodes={})
    return Replay(None, tape, SPEED, NAMESPACE, True, exporter, None)


def test_a_replay_waits_for_its_events():
    done = []
    an_empty_replay().run([(0.0, lambda: (time.sleep(0.2), done.append("late")))])
    assert done == ["late"]


def test_an_event_that_fails_fails_the_replay():
    def fail():
        raise NotReady("the sidecar ended with code 1")

    with pytest.raises(NotReady, match="the sidecar ended with code 1"):
        an_empty_replay().run([(0.0, fail)])


def test_pods_that_come_together_are_created_together(tape):
    """Else none of them would ever see another one wait."""
    first = float(tape.pod_arrival_s[arriving(tape)[0]])
    together = replace(tape, pod_arrival_s=np.where(tape.pod_initial, tape.pod_arrival_s, first).astype(np.float32))
    met = threading.Barrier(CREATED_AT_ONCE, timeout=10.0)
    batches = len(arriving(together)) // CREATED_AT_ONCE
    asked = itertools.count()

    class Admin:
        def create(self, path, pod):
            if next(asked) < batches * CREATED_AT_ONCE:  # the rest is no whole batch
                met.wait()

    everywhere = dict.fromkeys(range(tape.pod_slots), 0)
    exporter = SimpleNamespace(truth=SimpleNamespace(begun=False, clock_s=TAPE_S), nodes=everywhere)
    Replay(SimpleNamespace(admin=Admin()), together, SPEED, NAMESPACE, True, exporter, None).run()
    assert batches > 0
    assert next(asked) == len(arriving(together))


def test_pods_whose_creation_waits_for_its_turn_at_the_end_are_waited_for_too(tape):
    nodes, asked = {}, itertools.count()

    class SlowAdmin:
        def create(self, path, pod):
            """The first ones are bound before their threads are free: nothing that was begun is open then."""
            bound = partial(nodes.__setitem__, pod_number(pod["metadata"]["name"]), 0)
            if next(asked) < CREATED_AT_ONCE:
                bound()
                time.sleep(0.1)
            else:
                threading.Timer(0.2, bound).start()

    exporter = SimpleNamespace(truth=SimpleNamespace(begun=False, clock_s=TAPE_S), nodes=nodes)
    Replay(SimpleNamespace(admin=SlowAdmin()), tape, SPEED, NAMESPACE, True, exporter, None).run()
    assert nodes.keys() == set(arriving(tape))


@pytest.mark.timeout(120)
def test_every_pod_of_the_tape_is_placed_and_leaves_when_its_time_is_over(control_plane, tape, scheduler, say):
    came = arriving(tape)
    with replaying(control_plane, tape, SPEED, NAMESPACE) as replay:
        scheduler()
        replay.wait_for_metrics()
        replay.run([(TAPE_S / 2, lambda: say("replay: half of the tape is over"))])
        eventually(lambda: set(came) <= replay.exporter.nodes.keys(), "every pod bound")
        pending_s = replay.pending_s()
        where = dict(replay.exporter.nodes)
        over = [pod for pod in first_placements(tape) if float(tape.pod_duration_s[pod]) < TAPE_S - SPEED]
        pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        eventually(lambda: len(control_plane.admin.get(pods)["items"]) <= len(where) - len(over), "ended pods gone")
        meter = replay.exporter.truth.meter
    say(f"replay: {len(came)} pods at {SPEED:g} times the speed, the slowest bound after {max(pending_s):.2f} s")
    assert set(came) | set(first_placements(tape)) == set(where)
    assert len(pending_s) == len(came) > 0
    assert len(over) > 0
    assert meter.offered_mbit > 0
    assert replay.exporter.truth.clock_s == TAPE_S
