"""What ``benchmarks.serving`` measures with: a cluster made of numbers, the servers, and a client."""
