"""The solved bound of small worlds: its sums must be the simulator's, and nobody may be below it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from agent.errors import InputError
from agent.heuristics.registry import scorer_by_name
from envs.batch_arrays import COUNT
from envs.batch_env import BatchEnv
from envs.dynamics.costs import TERM, TERMS
from envs.workloads.tape import stack
from training.bound_study import has_headroom, headroom_closed, read_headroom, study
from training.bounds import bounded_cost_per_hour, solve
from training.contestants import Contestant
from training.evaluate import Exam
from training.offline_problem import NOWHERE, problem_of, tiny_world
from training.play import choose
from training.worlds import make_world

pytestmark = pytest.mark.timeout(400)

SEED = 1_000_000


def played(tape, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The terms of an episode, and where each pod of the tape went."""
    env, rng, scorer = BatchEnv(stack([tape])), np.random.default_rng(0), scorer_by_name(name)
    terms, where = np.zeros(len(TERMS)), np.full(tape.pod_slots, NOWHERE)
    while not env.done.all():
        actions = choose(scorer, env, rng)
        where[env.live.waiting[0, env.live.count[0, COUNT.offered]]] = actions[0]
        terms += env.step(actions)[0]
    assert terms[TERM["pending_time"]] == terms[TERM["memory_kills"]] == 0  # else it is another problem
    return terms, where


@pytest.mark.parametrize("name", ["expected_utilisation", "most_allocated", "network_overhead"])
def test_placements_cost_in_the_program_what_they_cost_in_the_simulator(name):
    for index in range(2):
        tape = make_world(tiny_world(), SEED, index)
        problem = problem_of(tape)
        terms, where = played(tape, name)
        fixed = np.where(problem.given == NOWHERE, where[problem.pods], problem.given)
        assert (fixed != NOWHERE).all()
        simulated = float(bounded_cost_per_hour(terms / problem.hours))
        assert solve(problem, fixed=fixed).reached == pytest.approx(simulated, rel=1e-9)


def test_the_bound_is_below_what_everybody_pays():
    tape = make_world(tiny_world(), SEED, 1)
    bound = solve(problem_of(tape), seconds=10.0)
    assert bound.decided_pods > 5
    assert bound.reached is None or bound.proven <= bound.reached + 1e-9
    for name in ("expected_utilisation", "least_allocated"):
        terms, _ = played(tape, name)
        assert bound.proven < float(bounded_cost_per_hour(terms / problem_of(tape).hours))


def test_only_the_terms_of_the_bound_are_counted():
    terms = np.zeros(len(TERMS))
    terms[TERM["money"]], terms[TERM["failures"]], terms[TERM["cross_zone"]] = 3.0, 7.0, 10.0
    assert float(bounded_cost_per_hour(terms)) == pytest.approx(3.0 + 10.0 * 0.02)


def test_a_study_shows_policies_beside_the_bound(monkeypatch):
    monkeypatch.setattr("training.bound_study.SECONDS_FOR_EACH", 2.0)
    fair = Contestant("least_allocated", "heuristic", "least_allocated", baseline=True)
    found = study([fair], Exam(seed=SEED), worlds=2)
    assert found.worlds + found.left_out == 2
    mean, above, _ = found.costs["least_allocated"]
    assert above == pytest.approx(mean - found.bound)
    assert above > 0


# --- headroom


def row(**changes: object) -> dict:
    return {"scenario": "s", "best_cost": 10.0, "attainable_cost": 8.0, "attainable_ci95": 1.0} | changes


def test_headroom_counts_only_where_it_is_sure():
    assert has_headroom(row())
    assert not has_headroom(row(attainable_ci95=2.5))
    assert not has_headroom(row(attainable_ci95=None))


def test_headroom_closed_is_a_share_of_what_is_attainable():
    assert headroom_closed(row(), np.array([9.0, 9.0]))[0] == pytest.approx(0.5)
    assert headroom_closed(row(), np.array([11.0, 11.0]))[0] == pytest.approx(-0.5)


def test_headroom_is_read_by_scenario_and_may_be_missing(tmp_path):
    path = tmp_path / "headroom.json"
    assert read_headroom(path) == {}
    path.write_text(json.dumps({"rows": [row()]}))
    assert read_headroom(path)["s"]["best_cost"] == 10.0
    path.write_text("[]")
    with pytest.raises(InputError, match="not a file of headroom rows"):
        read_headroom(path)
