"""More than one of a part: two sidecars behind one address, two kube-schedulers of which one leads."""

import time

import pytest

from tests.cluster.api import eventually
from tests.cluster.balancing import Balancer
from tests.cluster.controllers import start_scheduler
from tests.cluster.objects import a_pod, bindings_said, create_pods, wait_until_bound
from tests.cluster.sidecar import configuration_beside, configuration_for, start_sidecar

PODS = 60
ARRIVE_EVERY_S = 0.05

# Four times faster than the defaults of kube-scheduler: 15, 10 and 2 s.
ELECTION = {"leaderElect": True, "leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "500ms"}


@pytest.fixture
def sidecars(control_plane):
    started = [start_sidecar(control_plane) for _ in range(2)]
    yield started
    for each in started:
        control_plane.processes.stop(each.daemon)


@pytest.fixture
def service(sidecars):
    balancer = Balancer([each.port for each in sidecars])
    yield balancer
    balancer.close()


def failures_said(admin, namespace):
    return admin.get(f"/api/v1/namespaces/{namespace}/events", fieldSelector="reason=FailedScheduling")["items"]


def arrive(admin, namespace, numbers):
    for number in numbers:
        create_pods(admin, namespace, [a_pod(f"pod-{number:03}")])
        time.sleep(ARRIVE_EVERY_S)


def asked(sidecar, namespace):
    return {each["name"] for each in sidecar.decisions() if each["namespace"] == namespace}


def test_one_of_two_sidecars_killed_fails_no_pod(control_plane, nodes, scheduler, sidecars, service, namespace, say):
    scheduler(**configuration_for(service.url))
    arrive(control_plane.admin, namespace, range(PODS // 2))
    dead, alive = sorted(sidecars, key=lambda each: -len(asked(each, namespace)))
    of_the_dead = asked(dead, namespace)
    assert of_the_dead, "kube-scheduler asks neither"
    dead.daemon.kill()
    arrive(control_plane.admin, namespace, range(PODS // 2, PODS))
    where = wait_until_bound(control_plane.admin, namespace, PODS)
    decided = of_the_dead | asked(alive, namespace)
    say(f"two sidecars, the busier one killed: {len(where)} of {PODS} pods bound, {len(decided)} of them by a decision")
    assert not failures_said(control_plane.admin, namespace)
    assert len(decided) >= PODS - 2  # the pod under way and the connection that broke
    said = bindings_said(control_plane.admin, namespace)
    assert max(len(messages) for messages in said.values()) == 1


@pytest.fixture
def schedulers(control_plane, sidecars):
    configuration = configuration_beside(sidecars[0])
    started = [start_scheduler(control_plane, election=ELECTION, **configuration) for _ in range(2)]
    yield started
    for each in started:
        control_plane.processes.stop(each)


def leaders(schedulers):
    return [each for each in schedulers if "Successfully acquired lease" in each.log.read_text()]


def test_the_leading_scheduler_killed_leaves_no_pod_unbound(control_plane, nodes, sidecars, schedulers, namespace, say):
    admin = control_plane.admin
    (leader,) = eventually(lambda: leaders(schedulers), "a leader")
    arrive(admin, namespace, range(PODS // 2))
    wait_until_bound(admin, namespace, 1)
    leader.kill()
    killed_s = time.monotonic()
    arrive(admin, namespace, range(PODS // 2, PODS))
    wait_until_bound(admin, namespace, PODS)
    say(f"leading kube-scheduler killed: all {PODS} pods bound {time.monotonic() - killed_s:.1f} s later")
    assert len(leaders(schedulers)) == 2
    assert max(len(messages) for messages in bindings_said(admin, namespace).values()) == 1
    assert asked(sidecars[0], namespace) >= {f"pod-{number:03}" for number in range(PODS // 2, PODS)}
