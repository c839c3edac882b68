"""The Gymnasium ids of Pilotfish, kept apart so that importing ``envs`` does not import gymnasium.

Importing this module registers; Gymnasium does so by itself for an id that names the module::

    gymnasium.make("envs.registration:pilotfish/Cluster-v0")
"""

import gymnasium

CLUSTER_ID = "pilotfish/Cluster-v0"


def register() -> None:
    """Make the ids known to Gymnasium; a second call changes nothing."""
    if CLUSTER_ID not in gymnasium.registry:
        gymnasium.register(id=CLUSTER_ID, entry_point="envs.cluster_env:ClusterEnv")


register()
