"""Which app's pod arrives when, and how long it runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from agent.cluster import FloatArray, IntArray
from envs.workloads.draws import Rng, mean_of
from envs.workloads.scenario import Scenario

Columns = dict[str, Any]


def timing(
    scenario: Scenario, nodes: Columns, apps: Columns, rules: Columns, load: float, most: int, rng: Rng
) -> Columns:
    """Which app's pod arrives when, and how long it runs; the steady state is there from the start."""
    if scenario.arrivals.deployments:
        return _deployments(scenario, rules, rng)
    arrivals = scenario.arrivals
    capacity = np.array([nodes["node_cpu_millicores"].sum(), nodes["node_memory_mib"].sum()])
    each = np.array([apps["cpu_millicores"] @ apps["popularity"], apps["memory_mib"] @ apps["popularity"]])
    running = min(int(load * (capacity / each).min()), most // 2)
    first_s = float(rules["rate_window_s"] + rules["scrape_delay_s"] + 2 * rules["scrape_interval_s"])
    per_s = running / mean_of(arrivals.duration_s)
    arrival_s, app = _arrivals(scenario, apps, per_s, first_s, rng)
    keep = max(most - running, 0)
    arrival_s, app = arrival_s[:keep], app[:keep]
    sigma, median = arrivals.duration_s.sigma, arrivals.duration_s.median
    # Pods met at a random moment are long ones (length-biased), with a random part of their life left. It counts from
    # the first arrival on: before that the cluster only fills its metrics, and must not run empty.
    left_s = median * np.exp(sigma**2 + sigma * rng.standard_normal(running)) * rng.random(running)
    duration_s = median * np.exp(sigma * rng.standard_normal(len(app)))
    initial_app = rng.choice(len(apps["popularity"]), size=running, p=apps["popularity"])
    return {
        "pod_initial": np.arange(running + len(app)) < running,
        "pod_arrival_s": np.concatenate([np.zeros(running), arrival_s]),
        "pod_duration_s": np.concatenate([first_s + left_s + 1.0, np.maximum(duration_s, 2.0)]),
        "pod_app": np.concatenate([initial_app, app]),
    }


def _arrivals(scenario: Scenario, apps: Columns, per_s: float, first_s: float, rng: Rng) -> tuple[FloatArray, IntArray]:
    """Single pods at random, and bursts: many pods of one app within two seconds."""
    arrivals, span_s = scenario.arrivals, scenario.horizon_s - first_s
    single = rng.poisson(per_s * (1.0 - arrivals.bursts) * span_s)
    bursts = rng.poisson(per_s * arrivals.bursts * span_s / arrivals.burst_size)
    size = rng.geometric(1.0 / arrivals.burst_size, size=bursts)
    start_s = np.concatenate([rng.random(single), np.repeat(rng.random(bursts), size)]) * span_s + first_s
    names = len(apps["popularity"])
    app = np.concatenate(
        [
            rng.choice(names, size=single, p=apps["popularity"]),
            np.repeat(rng.choice(names, size=bursts, p=apps["popularity"]), size),
        ]
    )
    arrival_s = start_s + np.where(np.arange(len(start_s)) < single, 0.0, rng.random(len(start_s)) * 2.0)
    order = np.argsort(arrival_s, kind="stable")
    return arrival_s[order], app[order]


def _deployments(scenario: Scenario, rules: Columns, rng: Rng) -> Columns:
    """S1.38: single-pod deployments one after the other, then all deleted, again and again."""
    arrivals, gap_s = scenario.arrivals, scenario.arrivals.deployment_gap_s
    first_s = float(rules["rate_window_s"] + rules["scrape_delay_s"] + 2 * rules["scrape_interval_s"])
    round_s = (arrivals.deployments + 5) * gap_s
    rounds = max(int((scenario.horizon_s - first_s) / round_s), 1)
    within_s = np.arange(arrivals.deployments) * gap_s
    begin_s = first_s + np.repeat(np.arange(rounds), arrivals.deployments) * round_s
    arrival_s = begin_s + np.tile(within_s, rounds)
    deleted_s = begin_s + arrivals.deployments * gap_s
    return {
        "pod_initial": np.zeros(len(arrival_s), dtype=np.bool_),
        "pod_arrival_s": arrival_s,
        "pod_duration_s": np.maximum(deleted_s - arrival_s, 1.0),
        "pod_app": np.tile(np.arange(arrivals.deployments) % scenario.apps.count, rounds),
    }
