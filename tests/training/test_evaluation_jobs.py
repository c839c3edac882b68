"""Pieces over a local Ray of two workers, one of which is killed on the way: the numbers must not change."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import numpy as np
import pytest

from agent.errors import InputError
from training.contestants import Contestant
from training.episodes import pieces_of, play_piece
from training.evaluation_jobs import play_all

RANDOM = Contestant("random", "heuristic", "random", baseline=True)
FAIR = Contestant("least_allocated", "heuristic", "least_allocated", baseline=True)


def test_pieces_are_answered_in_order_and_progress_grows(small, monkeypatch):
    pieces = pieces_of([RANDOM, FAIR], small, 5, 2)
    told: list[float] = []
    outcomes = play_all(pieces, done=told.append)
    for piece, outcome in zip(pieces, outcomes, strict=True):
        np.testing.assert_array_equal(outcome.played.terms, play_piece(piece).played.terms)
    assert told == sorted(told)
    assert told[-1] == len(pieces)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_work_completes_with_the_same_numbers_when_a_worker_is_killed(small, tmp_path, monkeypatch):
    ray = pytest.importorskip("ray")
    mark = tmp_path / "died"
    pieces = [replace(piece, seed=seed) for seed in (5, 6) for piece in pieces_of([RANDOM, FAIR], small, 5, 2)]
    here = play_all(pieces)

    def dies_once(piece):
        """Kills its own worker the first time, as a machine that is lost would."""
        if piece.seed == 6 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return play_piece(piece)

    monkeypatch.setattr("training.evaluation_jobs.play_piece", dies_once)
    there = play_all(pieces, ray_address="local")
    assert not ray.is_initialized()
    assert mark.exists()  # a worker did die
    for one, other in zip(here, there, strict=True):
        np.testing.assert_array_equal(one.played.terms, other.played.terms)
        np.testing.assert_array_equal(one.played.decisions, other.played.decisions)


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("127.0.0.1:1", "Connection refused"),
        ("ray://127.0.0.1:1", "Connection refused"),
        ("somewhere", "no port in it"),
    ],
)
def test_an_address_without_ray_is_one_error_at_once(small, address, why):
    pytest.importorskip("ray")
    with pytest.raises(InputError, match=f"--ray-address {address}: {why}; give HOST:PORT"):
        play_all(pieces_of([FAIR], small, 5, 1), ray_address=address)
