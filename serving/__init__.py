"""The sidecar: HTTP in, decisions of ``agent`` out. Never loads torch, numba or gymnasium."""
