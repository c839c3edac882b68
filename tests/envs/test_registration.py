from __future__ import annotations

import subprocess
import sys

import gymnasium
import pytest

from envs.registration import CLUSTER_ID, LIVE_CLUSTER_ID, register


@pytest.mark.parametrize(
    ("identifier", "entry_point"),
    [(CLUSTER_ID, "envs.cluster_env:ClusterEnv"), (LIVE_CLUSTER_ID, "envs.live_env:LiveClusterEnv")],
)
def test_the_id_with_its_module_registers_by_itself(identifier, entry_point):
    code = f"""
import contextlib, gymnasium
with contextlib.suppress(Exception):
    gymnasium.make("envs.registration:{identifier}", no_such_option=1)
print(gymnasium.spec("{identifier}").entry_point)
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == entry_point


def test_registering_twice_changes_nothing_and_warns_of_nothing(recwarn):
    before = gymnasium.spec(CLUSTER_ID)
    register()
    assert gymnasium.spec(CLUSTER_ID) is before
    assert not recwarn.list


def test_importing_envs_loads_no_gymnasium():
    code = "import sys, envs, models; sys.exit('gymnasium' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    code = "import sys, envs.live.session; sys.exit('gymnasium' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
