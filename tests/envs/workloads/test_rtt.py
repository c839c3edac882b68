from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agent.errors import InputError
from envs.workloads.rtt import (
    INTER_REGION_FILE,
    INTER_ZONE_FILE,
    read_inter_region,
    read_inter_zone,
    region_rtt_matrix,
    zone_rtt_matrix,
)


def test_directions_are_averaged_and_snapshots_reduced_to_their_median(tiny: Path) -> None:
    here = read_inter_zone(tiny / INTER_ZONE_FILE)["Here"]
    assert here.places == ("a", "b")
    np.testing.assert_allclose(here.rtt_ms, [[0.08, 1.2], [1.2, 0.1]])


def test_one_direction_is_enough(tiny: Path) -> None:
    there = read_inter_zone(tiny / INTER_ZONE_FILE)["There"]
    np.testing.assert_allclose(there.rtt_ms, [[0.07, 0.5, 0.6], [0.5, 0.07, 0.7], [0.6, 0.7, 0.07]])


def test_matrix_is_symmetric_and_of_the_asked_size(tiny: Path) -> None:
    regions = read_inter_zone(tiny / INTER_ZONE_FILE)
    for seed in range(5):
        matrix = zone_rtt_matrix(regions, 2, np.random.default_rng(seed))
        assert matrix.shape == (2, 2)
        np.testing.assert_array_equal(matrix, matrix.T)
    with pytest.raises(InputError, match=r"no region has 4 zones.*the most is 3"):
        zone_rtt_matrix(regions, 4, np.random.default_rng(0))


def test_regions_get_the_stated_round_trip_to_themselves(tiny: Path) -> None:
    table = read_inter_region(tiny / INTER_REGION_FILE)
    matrix = region_rtt_matrix(table, 3, 0.1, np.random.default_rng(0))
    assert sorted(set(matrix.ravel().tolist())) == [0.1, 102, 200, 300]


def test_unmeasured_pair_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("snapshot,region_a,region_b,rtt_ms\nw,A,B,1\nw,B,C,1\n")
    with pytest.raises(InputError, match=r"no round trip between [AC] and [AC] was measured"):
        region_rtt_matrix(read_inter_region(tmp_path / "x.csv"), 3, 0.1, np.random.default_rng(0))


def test_negative_round_trip_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("snapshot,region_a,region_b,rtt_ms\nw,A,B,-1\n")
    with pytest.raises(InputError, match=":2: column 'rtt_ms': '-1' is negative"):
        read_inter_region(tmp_path / "x.csv")
