"""The worlds, simulated and live: each yields a ``ClusterState``.

Imports nothing, so that the live path can take ``envs.dynamics`` without gymnasium or numba. The Gymnasium ids are
registered by ``envs.registration``; ``gymnasium.make("envs.registration:pilotfish/Cluster-v0")`` imports it by itself.
"""
