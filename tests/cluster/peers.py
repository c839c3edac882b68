"""The real scheduler of sigs.k8s.io/scheduler-plugins, with the plugins and arguments that its own manifests show.

``make peers`` builds it. It is another program than kube-scheduler, of another version, under the same identity.
"""

from __future__ import annotations

import math

from envs.workloads.tape import Tape
from tests.cluster.api import Object, eventually
from tests.cluster.apiserver import ApiServer
from tests.cluster.building import tool
from tests.cluster.controllers import start_scheduler
from tests.cluster.objects import ZONE_LABEL
from tests.cluster.processes import Daemon
from tests.cluster.tape_objects import APP_GROUP, APP_GROUP_LABEL

PEER = "scheduler-plugins"
SCHEDULER_NAME = "default-scheduler"

TOPOLOGY_GROUP = "networktopology.diktyo.x-k8s.io"
TOPOLOGY, WEIGHTS = "zones", "UserDefined"
SAME_ZONE_COST = 1  # what NetworkOverhead itself counts within a zone
MOST_COST = 100  # its limit: no node is ever filtered out for a cost


def start_target_load_packing(cluster: ApiServer, prometheus_url: str) -> Daemon:
    """Trimaran as its README configures it: it reads Prometheus itself, through the load watcher that is part of it."""
    disabled = [{"name": "NodeResourcesBalancedAllocation"}, {"name": "NodeResourcesFit"}]
    args = {"metricProvider": {"type": "Prometheus", "address": prometheus_url}}
    score = {"disabled": disabled, "enabled": [{"name": "TargetLoadPacking"}]}
    return _start(cluster, {"score": score}, {"TargetLoadPacking": args})


def start_network_overhead(cluster: ApiServer, tape: Tape, namespace: str) -> Daemon:
    """With the true costs between zones, and every app known as one that talks to itself."""
    cluster.admin.apply_file(tool("peers-crds.yaml"))
    cluster.admin.apply_file(tool("peers-roles.yaml"))
    eventually(lambda: _is_served(cluster, TOPOLOGY_GROUP), "the kinds of NetworkOverhead served")
    cluster.admin.apply([app_group(tape, namespace), network_topology(tape, namespace)])
    plugins = {
        "multiPoint": {
            "enabled": [{"name": "NetworkOverhead", "weight": 5}],
            "disabled": [{"name": "NodeResourcesFit"}],
        },
        # Without it requests are not looked at, and pods would be bound where they do not fit.
        "preFilter": {"enabled": [{"name": "NodeResourcesFit"}]},
        "filter": {"enabled": [{"name": "NodeResourcesFit"}]},
    }
    args = {"namespaces": [namespace], "weightsName": WEIGHTS, "networkTopologyName": TOPOLOGY}
    return _start(cluster, plugins, {"NetworkOverhead": args})


def app_group(tape: Tape, namespace: str) -> Object:
    def workload(app: int) -> Object:
        name = f"app-{app:02d}"
        return {
            "kind": "Deployment",
            "apiVersion": "apps/v1",
            "namespace": namespace,
            "name": name,
            "selector": name,
        }

    chatty = [app for app in range(tape.app_slots) if tape.app_sibling_mbps[app] > 0]
    members = [
        {"workload": workload(app), "dependencies": [{"workload": workload(app), "maxNetworkCost": MOST_COST}]}
        for app in chatty
    ]
    spec = {"numMembers": len(members), "topologySortingAlgorithm": "KahnSort", "workloads": members}
    return _object(APP_GROUP_LABEL, "AppGroup", APP_GROUP, namespace, spec)


def network_topology(tape: Tape, namespace: str) -> Object:
    """One more than the round trip in ms, upwards: another zone is never as near as the own one."""
    zones = range(tape.zone_slots)
    origins = [
        {
            "origin": f"zone-{here}",
            "costList": [
                {
                    "destination": f"zone-{there}",
                    "networkCost": SAME_ZONE_COST + math.ceil(float(tape.zone_rtt_ms[here, there])),
                }
                for there in zones
                if there != here
            ],
        }
        for here in zones
    ]
    costs = [{"topologyKey": ZONE_LABEL, "originList": origins}]
    spec = {"configmapName": "none", "weights": [{"name": WEIGHTS, "topologyList": costs}]}
    return _object(TOPOLOGY_GROUP, "NetworkTopology", TOPOLOGY, namespace, spec)


def _start(cluster: ApiServer, plugins: Object, arguments: dict[str, Object]) -> Daemon:
    configured = [{"name": name, "args": args} for name, args in arguments.items()]
    profile = {"schedulerName": SCHEDULER_NAME, "plugins": plugins, "pluginConfig": configured}
    return start_scheduler(cluster, program=PEER, profiles=[profile])


def _object(group: str, kind: str, name: str, namespace: str, spec: Object) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": f"{group}/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def _is_served(cluster: ApiServer, group: str) -> bool:
    return any(each["name"] == group for each in cluster.admin.get("/apis")["groups"])
