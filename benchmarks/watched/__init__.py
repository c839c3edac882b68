"""A cluster to watch that is large and costs nothing: for benchmarks of the sidecar."""
