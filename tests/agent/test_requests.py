"""Pod requests, each worked out by hand from the rules of kube-scheduler 1.35 (S1.14)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import InputError
from agent.requests import PodRequests, non_zero_requests, pod_requests

MI = 2**20


def asks(cpu=None, memory=None, sidecar=False, name="c", **others) -> dict:
    """A container with these requests; ``sidecar`` makes an init container restartable."""
    requests = {"cpu": cpu, "memory": memory, **others}
    container = {"name": name, "resources": {"requests": {key: text for key, text in requests.items() if text}}}
    return {**container, "restartPolicy": "Always"} if sidecar else container


def pod(*containers, init=(), **spec) -> dict:
    return {"spec": {"containers": list(containers), "initContainers": list(init), **spec}}


# pod, CPU in millicores, memory in MiB
GOLDEN = {
    "one container asks for what it says": (pod(asks("250m", "64Mi")), 250, 64),
    "containers run together, so they add up: 250+500, 64+128": (
        pod(asks("250m", "64Mi"), asks("500m", "128Mi")),
        750,
        192,
    ),
    "no requests at all count nothing": (pod({"name": "c"}), 0, 0),
    "a missing resource counts 0, the other is kept": (pod(asks("250m"), asks(memory="64Mi")), 250, 64),
    "limits do not count: the API server has copied what it wanted": (
        pod({"name": "c", "resources": {"limits": {"cpu": "4", "memory": "1Gi"}}}),
        0,
        0,
    ),
    "an init container smaller than the sum changes nothing: max(700, 300)": (
        pod(asks("700m", "70Mi"), init=[asks("300m", "30Mi")]),
        700,
        70,
    ),
    "an init container larger than the sum wins: max(300, 2000)": (
        pod(asks("100m", "64Mi"), asks("200m", "64Mi"), init=[asks("2", "64Mi")]),
        2000,
        128,
    ),
    "the maximum is taken for each resource alone: cpu of init, memory of containers": (
        pod(asks("100m", "512Mi"), init=[asks("1", "128Mi")]),
        1000,
        512,
    ),
    "init containers run one after the other: the largest, not their sum": (
        pod(asks("100m"), init=[asks("400m", "10Mi"), asks("600m", "5Mi"), asks("500m")]),
        600,
        10,
    ),
    "a sidecar runs beside the containers: 500+200": (
        pod(asks("500m", "100Mi"), init=[asks("200m", "50Mi", sidecar=True)]),
        700,
        150,
    ),
    "a sidecar before an init container runs beside it: max(100+200, 200+400)": (
        pod(asks("100m"), init=[asks("200m", sidecar=True), asks("400m")]),
        600,
        0,
    ),
    "a sidecar after an init container is not there yet: max(100+200, 400)": (
        pod(asks("100m"), init=[asks("400m"), asks("200m", sidecar=True)]),
        400,
        0,
    ),
    "only the sidecars before count: max(100+10+20, 10+300, 10+20+250)": (
        pod(asks("100m"), init=[asks("10m", sidecar=True), asks("300m"), asks("20m", sidecar=True), asks("250m")]),
        310,
        0,
    ),
    "sidecars alone add up: 100+200+300": (
        pod(asks("300m"), init=[asks("100m", sidecar=True), asks("200m", sidecar=True)]),
        600,
        0,
    ),
    "restartPolicy OnFailure does not make a sidecar: max(100, 300)": (
        pod(asks("100m"), init=[{**asks("300m"), "restartPolicy": "OnFailure"}]),
        300,
        0,
    ),
    "overhead is added to the sum: 500+250, 64+120": (
        pod(asks("500m", "64Mi"), overhead={"cpu": "250m", "memory": "120Mi"}),
        750,
        184,
    ),
    "overhead is added after the maximum: max(100, 1000)+250": (
        pod(asks("100m"), init=[asks("1")], overhead={"cpu": "250m"}),
        1250,
        0,
    ),
    "overhead counts for a pod without requests": (pod({"name": "c"}, overhead={"memory": "16Mi"}), 0, 16),
    "pod-level requests replace the sum, even with less: 300 not 500": (
        pod(asks("250m", "64Mi"), asks("250m", "64Mi"), resources={"requests": {"cpu": "300m", "memory": "100Mi"}}),
        300,
        100,
    ),
    "pod-level requests replace only what they name: memory stays 64": (
        pod(asks("250m", "64Mi"), resources={"requests": {"cpu": "1"}}),
        1000,
        64,
    ),
    "pod-level requests replace the init maximum too": (
        pod(asks("100m"), init=[asks("2")], resources={"requests": {"cpu": "500m"}}),
        500,
        0,
    ),
    "overhead is added to pod-level requests: 1000+100": (
        pod(asks("250m"), resources={"requests": {"cpu": "1"}}, overhead={"cpu": "100m"}),
        1100,
        0,
    ),
    "pod-level limits alone replace nothing": (pod(asks("250m"), resources={"limits": {"cpu": "1"}}), 250, 0),
    "fractions of a millicore are added before rounding up: 0.5+0.5 is 1": (pod(asks("500u"), asks("500u")), 1, 0),
    "null lists and maps are empty, as Go writes them": (
        {"spec": {"containers": [{"name": "c", "resources": {"requests": None}}], "initContainers": None}},
        0,
        0,
    ),
    "numbers are accepted beside texts": (pod(asks(2, 4 * MI)), 2000, 4),
}


@pytest.mark.parametrize(("manifest", "cpu", "memory_mib"), GOLDEN.values(), ids=GOLDEN.keys())
def test_requests(manifest, cpu, memory_mib) -> None:
    requests = pod_requests(manifest)
    assert (requests.cpu_millicores, requests.memory_bytes) == (cpu, memory_mib * MI)


def test_other_resources_follow_the_same_rules() -> None:
    vendor = {"example.com/fpga": "1", "hugepages-2Mi": "4Mi"}
    manifest = pod(
        asks(**{"nvidia.com/gpu": "2", "ephemeral-storage": "1Gi"}, **vendor),
        asks(**{"amd.com/gpu": "1", **vendor}),
        init=[asks(**{"nvidia.com/gpu": "3"})],
    )
    assert pod_requests(manifest) == PodRequests(
        ephemeral_bytes=2**30, gpus=3 + 1, extended={"example.com/fpga": 2, "hugepages-2Mi": 8 * MI}
    )


def test_pod_level_requests_cannot_set_devices() -> None:
    manifest = pod(asks(**{"nvidia.com/gpu": "1"}), resources={"requests": {"nvidia.com/gpu": "8", "cpu": "1"}})
    assert pod_requests(manifest) == PodRequests(cpu_millicores=1000, gpus=1)


def resizing(wanted: str, status: dict, reason: str = "Deferred") -> dict:
    condition = {"type": "PodResizePending", "reason": reason}
    return {**pod(asks(wanted)), "status": {"containerStatuses": [{"name": "c", **status}], "conditions": [condition]}}


HELD = {"resources": {"requests": {"cpu": "500m"}}, "allocatedResources": {"cpu": "700m"}}
RESIZES = {
    "growing: the spec is the largest": (resizing("1", HELD), 1000),
    "shrinking: what is allocated is still held": (resizing("100m", HELD), 700),
    "infeasible: the spec will not come, what is held counts": (resizing("4", HELD, "Infeasible"), 700),
    "a status without resources says nothing": (resizing("100m", {"allocatedResources": {"cpu": "2"}}), 100),
    "a status of another container says nothing": (resizing("100m", {**HELD, "name": "other"}), 100),
}


@pytest.mark.parametrize(("manifest", "cpu"), RESIZES.values(), ids=RESIZES.keys())
def test_a_container_being_resized_holds_the_larger_amount(manifest, cpu) -> None:
    assert pod_requests(manifest).cpu_millicores == cpu


def test_a_sidecar_being_resized_counts_like_a_container() -> None:
    manifest = pod(asks("100m"), init=[asks("100m", sidecar=True, name="proxy")])
    manifest["status"] = {"initContainerStatuses": [{"name": "proxy", **HELD}]}
    assert pod_requests(manifest).cpu_millicores == 800


NON_ZERO = {
    "a container without requests counts 100m and 200Mi": (pod({"name": "c"}), 100, 200),
    "each container without requests counts: 2 x 100m": (pod({"name": "a"}, {"name": "b"}), 200, 400),
    "only what is missing gets the default": (pod(asks("250m")), 250, 200),
    "a request below the default is kept": (pod(asks("1m", "1Mi")), 1, 1),
    "an explicit 0 is kept": (pod(asks("0", "0")), 0, 0),
    "init containers get it too: max(50, 100)": (pod(asks("50m", "1Mi"), init=[asks(memory="1Mi")]), 100, 1),
    "sidecars get it too: 50+100": (pod(asks("50m", "1Mi"), init=[asks(memory="1Mi", sidecar=True)]), 150, 2),
    "overhead comes on top: 100+250": (pod({"name": "c"}, overhead={"cpu": "250m"}), 350, 200),
    "pod-level requests replace the default": (pod({"name": "c"}, resources={"requests": {"cpu": "30m"}}), 30, 200),
}


@pytest.mark.parametrize(("manifest", "cpu", "memory_mib"), NON_ZERO.values(), ids=NON_ZERO.keys())
def test_non_zero_requests(manifest, cpu, memory_mib) -> None:
    requests = non_zero_requests(manifest)
    assert (requests.cpu_millicores, requests.memory_bytes) == (cpu, memory_mib * MI)


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (pod(asks("two cores", name="web")), "requests of container 'web'.*'two cores'"),
        (pod(asks(), overhead={"cpu": "x"}), "spec.overhead.*'x'"),
        (pod(asks(), resources={"requests": {"cpu": True}}), "spec.resources.*True"),
        ({"spec": {"containers": {"name": "c"}}}, "'containers' of the pod must be a list of objects"),
        ({"spec": {"containers": ["c"]}}, "'containers' of the pod must be a list of objects"),
        ({"spec": "pod"}, "'spec' of the pod must be an object, not str"),
    ],
)
def test_bad_pods_are_refused_with_the_place(manifest, message) -> None:
    with pytest.raises(InputError, match=message):
        pod_requests(manifest)


def test_a_pod_is_not_changed_by_asking() -> None:
    manifest = pod(asks("100m"), init=[asks("1", sidecar=True)], overhead={"cpu": "1"})
    assert pod_requests(manifest) == pod_requests(manifest)
    assert manifest == pod(asks("100m"), init=[asks("1", sidecar=True)], overhead={"cpu": "1"})


millis = st.integers(1, 4000)
containers = st.builds(lambda cpu, sidecar: asks(f"{cpu}m", sidecar=sidecar), millis, st.booleans())


@given(st.lists(millis, min_size=1, max_size=4), st.lists(containers, max_size=5))
def test_the_pod_fits_at_every_moment_of_its_start_and_needs_no_more(running, init) -> None:
    """The rule from first principles: play the start, one init container after the other."""
    amounts = [(int(each["resources"]["requests"]["cpu"][:-1]), "restartPolicy" in each) for each in init]
    sidecars, moments = 0, []
    for amount, stays in amounts:
        moments.append(sidecars + amount)
        sidecars += amount if stays else 0
    moments.append(sum(running) + sidecars)
    manifest = pod(*(asks(f"{amount}m") for amount in running), init=init)
    assert pod_requests(manifest).cpu_millicores == max(moments)
