"""The Gymnasium ids of Pilotfish, kept apart so that importing ``envs`` does not import gymnasium.

Importing this module registers; Gymnasium does so by itself for an id that names the module::

    gymnasium.make("envs.registration:pilotfish/Cluster-v0")
"""

import gymnasium

CLUSTER_ID = "pilotfish/Cluster-v0"
LIVE_CLUSTER_ID = "pilotfish/LiveCluster-v0"


def register() -> None:
    """Make the ids known to Gymnasium; a second call changes nothing."""
    if CLUSTER_ID not in gymnasium.registry:
        gymnasium.register(id=CLUSTER_ID, entry_point="envs.cluster_env:ClusterEnv")
    if LIVE_CLUSTER_ID not in gymnasium.registry:  # no seed repeats what a real cluster does
        gymnasium.register(id=LIVE_CLUSTER_ID, entry_point="envs.live_env:LiveClusterEnv", nondeterministic=True)


register()
