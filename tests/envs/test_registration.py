from __future__ import annotations

import subprocess
import sys

import gymnasium

from envs.registration import CLUSTER_ID, register


def test_the_id_with_its_module_registers_by_itself():
    code = f"""
import contextlib, gymnasium
with contextlib.suppress(Exception):
    gymnasium.make("envs.registration:{CLUSTER_ID}", no_such_option=1)
print(gymnasium.spec("{CLUSTER_ID}").entry_point)
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "envs.cluster_env:ClusterEnv"


def test_registering_twice_changes_nothing_and_warns_of_nothing(recwarn):
    before = gymnasium.spec(CLUSTER_ID)
    register()
    assert gymnasium.spec(CLUSTER_ID) is before
    assert not recwarn.list


def test_importing_envs_loads_no_gymnasium():
    code = "import sys, envs, models; sys.exit('gymnasium' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
