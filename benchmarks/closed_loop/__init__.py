"""One workload under several schedulers on a real control plane, and what the simulator predicts for each."""
