import shutil
import subprocess
import sys

import numpy as np
import onnx
import pytest

from agent.errors import InputError
from agent.features import NODE_COLUMN, NODE_FEATURES, POD_FEATURES, Encoding, encode
from agent.scorer import FeatureScorer, OutOfRange, ScoringUnavailable
from models.manifest import MODEL_FILE, FeatureRange, read_manifest, sha256_of, write_manifest
from models.onnx_scorer import OnnxScorer
from tests.agent.conftest import build_demand, build_state
from tests.tiny_model import release

NODES = 6
EVERY = np.ones(NODES, dtype=bool)
NARROW = FeatureRange(min=-1.0, low=0.25, high=0.75, max=2.0)
PROBED = ("cpu_used_ratio", "rx_ratio", "tx_ratio", "rx_expected_ratio")
COLUMNS = [NODE_COLUMN[name] for name in PROBED]
COLUMN = COLUMNS[0]
VALUES = NODES * len(NODE_FEATURES) + len(POD_FEATURES)


@pytest.fixture(scope="module")
def scorer(model_folder):
    return OnnxScorer.load(model_folder)


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    """Some node features have seen only the middle of their range: together more than 5 % of a node's values."""
    ranges = dict.fromkeys(PROBED, NARROW)
    return OnnxScorer.load(release(tmp_path_factory.mktemp("narrow") / "default", **ranges))


def random_encoding(*lead, nodes=NODES, seed=0):
    rng = np.random.default_rng(seed)
    return Encoding(
        rng.random((*lead, nodes, len(NODE_FEATURES)), dtype=np.float32),
        rng.random((*lead, len(POD_FEATURES)), dtype=np.float32),
    )


def with_column(encoding, value, column=COLUMN):
    nodes = encoding.nodes.copy()
    nodes[..., column] = value
    return Encoding(nodes, encoding.pod)


def test_it_is_a_scorer_over_features_called_policy(scorer):
    assert isinstance(scorer, FeatureScorer)
    assert (scorer.name, scorer.needs) == ("policy", ("cpu", "memory", "network"))


def test_score_encodes_and_rates(scorer):
    rng = np.random.default_rng(1)
    state = build_state(NODES, cpu_used_millicores=rng.uniform(0, 4000, NODES), rx_mbps=rng.uniform(0, 900, NODES))
    demand = build_demand(NODES, cpu_request_millicores=500.0)
    values = scorer.score(state, demand, EVERY)
    np.testing.assert_array_equal(values, scorer.rate(encode(state, demand, EVERY), EVERY))
    assert values.dtype == np.float64
    assert len(set(values.tolist())) == NODES


def test_the_same_question_has_the_same_answer_to_the_last_bit(scorer):
    encoding = random_encoding(nodes=500)
    answers = [scorer.rate(encoding, np.ones(500, dtype=bool)) for _ in range(5)]
    assert all((answer == answers[0]).all() for answer in answers)


def test_values_beyond_the_recorded_range_count_as_its_ends(narrow):
    encoding = random_encoding()
    at_the_end = narrow.rate(with_column(encoding, 2.0), EVERY)
    np.testing.assert_array_equal(narrow.rate(with_column(encoding, 100.0), EVERY), at_the_end)
    assert (narrow.rate(with_column(encoding, 1.9), EVERY) != at_the_end).all()
    assert (with_column(encoding, 100.0).nodes[..., COLUMN] == 100.0).all(), "the caller's features stay as they are"


def in_the_middle(encoding):
    return with_column(encoding, 0.5, COLUMNS)


def test_the_guard_counts_values_off_the_percentiles_of_candidates_and_pod(narrow):
    calm = in_the_middle(random_encoding())
    odd = with_column(calm, 0.9)
    assert narrow.share_outside(calm, EVERY) == 0.0
    assert narrow.share_outside(odd, EVERY) == pytest.approx(NODES / VALUES)
    some = np.arange(NODES) < 2
    assert narrow.share_outside(odd, some) == pytest.approx(2 / (2 * len(NODE_FEATURES) + len(POD_FEATURES)))
    assert narrow.share_outside(Encoding(calm.nodes, calm.pod + 20.0), EVERY) == len(POD_FEATURES) / VALUES


def test_the_ends_of_the_percentiles_are_inside_and_nan_is_not(narrow):
    calm = in_the_middle(random_encoding())
    assert narrow.share_outside(with_column(calm, 0.25), EVERY) == 0.0
    assert narrow.share_outside(with_column(calm, 0.75), EVERY) == 0.0
    assert narrow.share_outside(with_column(calm, np.nan), EVERY) > 0.0


def test_the_guard_trips_above_5_percent_and_row_by_row(narrow):
    calm = in_the_middle(random_encoding(3))
    nodes = calm.nodes.copy()
    nodes[1][:, COLUMNS] = 0.9
    nodes[2][:, COLUMN] = 0.9
    assert NODES < 0.05 * VALUES < 4 * NODES
    mask = np.ones((3, NODES), dtype=bool)
    assert narrow.out_of_range(Encoding(nodes, calm.pod), mask).tolist() == [False, True, False]


def odd_cluster():
    busy = np.full(NODES, 3900.0)
    return build_state(NODES, cpu_used_millicores=busy, rx_mbps=np.full(NODES, 999.0), tx_mbps=np.full(NODES, 999.0))


def test_one_cluster_out_of_range_is_refused_with_the_share(narrow):
    share = f"{4 * NODES / VALUES:.1%}"
    with pytest.raises(OutOfRange, match=f"{share} of the values are off the range .* more than 5%"):
        narrow.score(odd_cluster(), build_demand(NODES), EVERY)


def test_a_model_that_gives_no_numbers_is_refused_when_loaded_and_unavailable_when_asked(model_folder, tmp_path):
    folder = shutil.copytree(model_folder, tmp_path / "nan")
    model = onnx.load(folder / MODEL_FILE)
    for part in model.graph.initializer:
        if part.name == "sharpness":
            part.CopyFrom(onnx.numpy_helper.from_array(np.asarray(np.nan, dtype=np.float32), part.name))
    content = model.SerializeToString()
    with pytest.raises(InputError, match=r"57 scores of model default@\w+ are not finite, within the very ranges"):
        replaced(folder, content)
    with pytest.raises(ScoringUnavailable, match=r"6 scores of model default@\w+ are not finite"):
        OnnxScorer(read_manifest(folder), content).rate(random_encoding(), EVERY)


def replaced(folder, model: bytes):
    """Another model under a manifest that names it: what a digest cannot find."""
    (folder / MODEL_FILE).write_bytes(model)
    write_manifest(read_manifest(folder).model_copy(update={"sha256": sha256_of(model)}), folder)
    return OnnxScorer.load(folder)


def test_a_file_that_is_no_model_is_one_line(model_folder, tmp_path):
    folder = shutil.copytree(model_folder, tmp_path / "x")
    with pytest.raises(InputError, match=r"policy.onnx: onnxruntime cannot run it .* export the model again") as why:
        replaced(folder, b"no model at all")
    assert "\n" not in str(why.value)


def by_hand(inputs: dict[str, list[int | str]]) -> bytes:
    """A model that takes these and gives the mean of the nodes' features."""
    kinds = {"mask": onnx.TensorProto.BOOL}
    float32 = onnx.TensorProto.FLOAT
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("ReduceMean", [next(iter(inputs))], ["scores"], axes=[-1], keepdims=0)],
        "by_hand",
        [value(name, kinds.get(name, float32), shape) for name, shape in inputs.items()],
        [value("scores", float32, ["b", "n"])],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"x": ["b", "n", 3]}, "it must take nodes, pod, mask and give scores"),
        ({"nodes": ["b", "n", 3], "pod": ["b", len(POD_FEATURES)], "mask": ["b", "n"]}, "it takes 3 nodes features"),
        ({"nodes": ["b", "n", len(NODE_FEATURES)], "pod": ["b", 2], "mask": ["b", "n"]}, "it takes 2 pod features"),
    ],
)
def test_a_model_with_other_inputs_is_refused(model_folder, tmp_path, inputs, said):
    folder = shutil.copytree(model_folder, tmp_path / "x")
    with pytest.raises(InputError, match=f"policy.onnx: {said}"):
        replaced(folder, by_hand(inputs))


def test_it_loads_neither_torch_nor_numba():
    look = "import models.onnx_scorer, sys; sys.exit(', '.join({'torch', 'numba', 'gymnasium'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=40, check=False)
    assert done.stderr.strip() == ""
