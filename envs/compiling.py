"""Compile the simulator once, before anything that should be quick: ``python -m envs.compiling``.

The compiled kernels are kept on disk beside their sources until one of those changes. It takes a minute or two, and
whoever needs them first would wait for it without a word.
"""

from __future__ import annotations

import time

import numpy as np
import typer

from agent.features import NODE_FEATURES
from envs.batch_env import BatchEnv
from envs.batch_linear import play_linear
from envs.workloads.scenario import load_scenario
from envs.workloads.synthetic import make_tapes


def compile_kernels() -> None:
    """Every kernel that is kept on disk, by using it once."""
    env = BatchEnv(make_tapes(load_scenario("deployments"), 0, range(1)), threads=1)
    env.step(np.zeros(1, dtype=np.int64), env.new_encoding())
    play_linear(env, np.zeros((1, len(NODE_FEATURES))), np.zeros(1, dtype=np.int64), np.full(1, 1.0))


if __name__ == "__main__":
    typer.echo("compiling the simulator (a minute or two, then kept) ...")
    began_s = time.monotonic()
    compile_kernels()
    typer.echo(f"the simulator is compiled, {time.monotonic() - began_s:.0f} s")
