"""The rules of agent and envs.dynamics, compiled from their one source for the batch environment."""

from __future__ import annotations

from numba import njit

from agent import feasibility, gpu, pending
from envs.dynamics import contention, sampling, scraping, traffic, usage

# Nothing here allocates, so nothing counts references (that took half of the time), and the wide tuples of arrays are
# not handed from call to call (that took half of the rest).
compiled = njit(error_model="numpy", _nrt=False, forceinline=True)

choose_gpus = njit(gpu.choose_gpus)
take_gpus = njit(gpu.take_gpus)
fits = njit(feasibility.fits)
pending_weight = njit(pending.pending_weight)
carried = njit(contention.carried)
lost = njit(contention.lost)
carried_ratio = njit(contention.carried_ratio)
oom_badness_mib = njit(contention.oom_badness_mib)
back_off_s = njit(contention.back_off_s)
latency_violation = njit(contention.latency_violation)
stranded_cores = njit(contention.stranded_cores)
candidates_wanted = njit(sampling.candidates_wanted)
first_node = njit(sampling.first_node)
latency_allows = njit(sampling.latency_allows)
counter_rate = njit(scraping.counter_rate)
in_window = njit(scraping.in_window)
smoothed = njit(scraping.smoothed)
remote_share = njit(traffic.remote_share)
sibling_traffic_mbps = njit(traffic.sibling_traffic_mbps)
cpu_demand_millicores = njit(usage.cpu_demand_millicores)
memory_use_mib = njit(usage.memory_use_mib)
connections = njit(usage.connections)
node_power_watts = njit(usage.node_power_watts)
active_price_usd_per_hour = njit(usage.active_price_usd_per_hour)
