"""Which GPUs of a node a pod takes: one rule for the simulators, the scorers and the sidecar.

``choose_gpus``, ``count_fitting_gpus`` and ``take_gpus`` are plain Python in the subset that numba compiles: the
reference environment calls them as they are, the fast simulators through ``numba.njit(choose_gpus)``. They allocate
nothing: a set of GPUs is the bits of one int, bit ``i`` for ``gpu_free_milli[i]``. ``choose_gpus_per_node`` is the
same choice for all nodes at once, in numpy, for scorers.

A pod asks for ``gpus`` devices and ``gpu_milli`` of each. Slots that a node does not have are 0 milli free.
"""

from __future__ import annotations

import numpy as np

from agent.cluster import BoolArray, FloatArray

NO_FIT = -1  # too few devices with enough room


def choose_gpus(gpu_free_milli: FloatArray, gpus: float, gpu_milli: float) -> int:
    """Best fit: the fullest devices that still fit, each at most once, the lowest index first among equals.

    ``choose_gpus(gpu_free_milli (slots,), gpus, gpu_milli) -> int``: the chosen devices as bits, 0 if the pod
    asks for none, ``NO_FIT`` (-1) if the node cannot host it. The array is not changed: see ``take_gpus``.
    """
    chosen = 0
    for _ in range(int(gpus)):
        tightest = NO_FIT
        for slot in range(gpu_free_milli.shape[0]):
            fits = gpu_free_milli[slot] >= gpu_milli and not (chosen >> slot) & 1
            if fits and (tightest < 0 or gpu_free_milli[slot] < gpu_free_milli[tightest]):
                tightest = slot
        if tightest < 0:
            return NO_FIT
        chosen |= 1 << tightest
    return chosen


def count_fitting_gpus(gpu_free_milli: FloatArray, gpu_milli: float) -> int:
    """How many devices have room for this share."""
    fitting = 0
    for slot in range(gpu_free_milli.shape[0]):
        if gpu_free_milli[slot] >= gpu_milli:
            fitting += 1
    return fitting


def take_gpus(gpu_free_milli: FloatArray, chosen: int, gpu_milli: float) -> None:
    """Take ``gpu_milli`` from each chosen device, in place; a negative ``gpu_milli`` gives it back."""
    for slot in range(gpu_free_milli.shape[0]):
        if (chosen >> slot) & 1:
            gpu_free_milli[slot] -= gpu_milli


def choose_gpus_per_node(gpu_free_milli: FloatArray, gpus: FloatArray, gpu_milli: FloatArray) -> BoolArray:
    """``choose_gpus`` of every node, ``(..., nodes, slots)``; no device where the node cannot host the pod."""
    fits = gpu_free_milli >= np.asarray(gpu_milli)[..., None, None]
    tightest_first = np.argsort(np.where(fits, gpu_free_milli, np.inf), axis=-1, kind="stable")
    rank = np.argsort(tightest_first, axis=-1)
    wanted = np.asarray(gpus)[..., None, None]
    chosen: BoolArray = fits & (rank < wanted) & (fits.sum(axis=-1, keepdims=True) >= wanted)
    return chosen
