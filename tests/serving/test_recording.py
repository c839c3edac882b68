"""The record of decisions: complete, bounded, readable by training, and never in the way."""

import random
import threading
import time

import pytest

from agent.cluster import Pod
from agent.features import NODE_FEATURES, POD_FEATURES
from envs.workloads.recording import read_recording
from envs.workloads.recording_records import Bound, Decision, Ended, Header, Nodes, Sample
from serving.decide import new_decider
from serving.embedded import EmbeddedSimulation
from serving.recording import MOST_QUEUED_NODES, Recorder
from serving.settings import ModelSettings, RecordingSettings, Settings, SimulationSettings
from tests.serving.conftest import NAMES, StillSource, a_snapshot

POD = Pod(uid="u1", name="web-1", namespace="shop", app="web", cpu_request_millicores=500)


class Counted:
    def __init__(self):
        self.written = self.dropped = 0

    def __call__(self, written, dropped):
        self.written += written
        self.dropped += dropped


@pytest.fixture
def counted():
    return Counted()


@pytest.fixture
def record(decider, tmp_path, counted):
    """Records what happens in the block, and gives it back when it is over."""

    def recording(happens, source=None, **settings):
        source = source or StillSource(a_snapshot())
        recorder = Recorder(RecordingSettings(folder=str(tmp_path / "recording"), **settings), source, counted)
        decider.decisions.listen(recorder)
        recorder.start()
        happens()
        recorder.stop()
        recorder._thread.join(10.0)  # stop waits for a second only: on a busy machine the last of it takes longer
        assert not recorder._thread.is_alive()
        return list(read_recording(tmp_path / "recording"))

    return recording


def only(records, kind):
    (found,) = [record for record in records if isinstance(record, kind)]
    return found


def test_a_decision_is_recorded_with_features_scores_source_and_the_bound_node(record, decider, counted):
    def happens():
        decider.decide(a_snapshot(), POD)
        decider.decisions.on_bound("u1", "middle")
        decider.decisions.on_ended("u1")

    records = record(happens)
    decision = only(records, Decision)
    assert (decision.pod_uid, decision.chosen, decision.source) == ("u1", "idle", "expected_utilisation")
    assert decision.candidates == ("idle", "busy", "middle", "small")
    assert len(decision.scores) == len(decision.levels) == 4
    assert max(decision.levels) == 10
    assert decision.feature_nodes[0] == "idle"
    row = dict(zip(NODE_FEATURES, decision.node_features[0], strict=True))
    assert row["cpu_used_ratio"] == pytest.approx(0.05)
    assert len(decision.pod_features) == len(POD_FEATURES)
    assert (decision.demand.namespace, decision.demand.app, decision.network_age_s) == ("shop", "web", 5.0)
    assert (decision.mode, decision.shadow) == ("active", False)
    assert only(records, Bound).node == "middle"
    assert only(records, Ended).pod_uid == "u1"
    assert counted.written == len(records) - 1  # every segment has a header of its own
    assert counted.dropped == 0


def test_the_cluster_is_recorded_too(record, decider):
    records = record(lambda: decider.decide(a_snapshot(), POD))
    assert isinstance(records[0], Header)
    assert records[0].node_features == tuple(NODE_FEATURES)
    assert [node.name for node in only(records, Nodes).nodes] == list(NAMES)
    sample = only(records, Sample)
    assert sample.nodes == NAMES
    assert sample.rx_mbps[1] == 900.0


def test_a_bound_node_whose_features_the_decision_lacks_brings_its_own(record, decider):
    def happens():
        decider.decide(a_snapshot(), POD)
        decider.decisions.on_bound("u1", "busy")

    records = record(happens, feature_nodes=1)
    assert only(records, Decision).feature_nodes == ("idle",)
    row = dict(zip(NODE_FEATURES, only(records, Bound).features, strict=True))
    assert row["cpu_used_ratio"] == pytest.approx(0.75)


def test_a_shadow_decision_says_so(record, decider):
    from serving.rollout import Verdict

    records = record(lambda: decider.decide(a_snapshot(), POD, rollout=Verdict("shadow", applied=False)))
    assert (only(records, Decision).mode, only(records, Decision).shadow) == ("shadow", True)


def test_a_question_without_a_uid_is_not_recorded(record, decider):
    records = record(lambda: decider.decide(a_snapshot(), Pod(uid="")))
    assert not [each for each in records if isinstance(each, Decision)]


def test_the_end_of_a_pod_that_nobody_decided_about_is_not_recorded(record, decider):
    records = record(lambda: decider.decisions.on_ended("stranger"))
    assert not [each for each in records if isinstance(each, Ended)]


def test_a_full_queue_drops_and_counts_and_nobody_waits(decider, tmp_path, counted):
    recorder = Recorder(RecordingSettings(folder=str(tmp_path), queue=2), StillSource(None), counted)  # never started
    decider.decisions.listen(recorder)
    for _ in range(5):
        decider.decide(a_snapshot(), POD)
    assert counted.dropped == 3


def test_decisions_that_wait_are_bounded_by_their_nodes_too(decider, tmp_path, counted, monkeypatch):
    monkeypatch.setattr("serving.recording.MOST_QUEUED_NODES", 3 * len(NAMES))
    recorder = Recorder(RecordingSettings(folder=str(tmp_path)), StillSource(None), counted)  # never started
    decider.decisions.listen(recorder)
    for _ in range(5):
        decider.decide(a_snapshot(), POD)
    assert counted.dropped == 2
    assert MOST_QUEUED_NODES >= 5000


def test_a_folder_that_cannot_be_used_costs_records_and_no_answer(decider, tmp_path, counted, caplog):
    (tmp_path / "file").write_text("not a folder")
    recorder = Recorder(RecordingSettings(folder=str(tmp_path / "file")), StillSource(a_snapshot()), counted)
    decider.decisions.listen(recorder)
    recorder.start()
    assert decider.decide(a_snapshot(), POD).best == "idle"
    recorder.stop()
    assert counted.dropped >= 1
    assert counted.written == 0
    assert caplog.text.count("nothing is recorded") == 1


def test_old_segments_make_room(record, decider, counted, tmp_path, monkeypatch):
    monkeypatch.setattr("serving.recording.MIB", 16 * 1024)
    uids = [random.Random(number).randbytes(250).hex() for number in range(2000)]  # nothing to compress

    def happens():
        for number, uid in enumerate(uids, start=1):
            decider.decide(a_snapshot(), Pod(uid=uid))
            while counted.written < number - 500:
                time.sleep(0.01)
        while counted.written < len(uids) + 2:
            time.sleep(0.01)

    newest = [each for each in record(happens, segment_mib=4, total_mib=20) if isinstance(each, Decision)]
    size = sum(path.stat().st_size for path in (tmp_path / "recording").iterdir())
    assert size < 20 * 16 * 1024 + 65_536, "buffers can add so much to the open segment"
    assert newest[-1].pod_uid == uids[-1]
    assert 100 < len(newest) < len(uids)
    assert counted.dropped == 0


def test_what_the_sidecar_records_is_packed_and_read_by_training(tmp_path):
    from training.record import pack, unpack
    from training.recorded_cluster import read_cluster

    decider = new_decider(Settings(model=ModelSettings(folder="none")), time.monotonic, lambda _: None, lambda _: None)
    simulation = EmbeddedSimulation(SimulationSettings(speed=100), decider, time.monotonic)
    counted, folder = Counted(), tmp_path / "recording"
    recorder = Recorder(RecordingSettings(folder=str(folder), sample_every_s=1), simulation, counted)
    decider.decisions.listen(recorder)
    simulation.start()
    recorder.start()
    until_s = time.monotonic() + 30
    while time.monotonic() < until_s and counted.written < 1500:
        time.sleep(0.05)
    simulation.stop()
    recorder.stop()
    assert counted.dropped == 0
    cluster = read_cluster(folder)
    assert len(cluster.nodes) == 20
    assert (cluster.pods.node >= 0).mean() > 0.95
    assert 0.5 < cluster.pods.followed[cluster.pods.node >= 0].mean() < 1.0, "other plugins win now and then"
    report = pack(folder, tmp_path / "packed")
    assert report.bad_lines == report.truncated_segments == 0
    assert unpack(tmp_path / "packed") == list(read_recording(folder))
    assert all(report.records.values()), report.records


def test_the_sidecar_records_when_a_folder_is_set(settings, tmp_path, source, decider, metrics):
    from fastapi.testclient import TestClient

    from serving.app import create_app

    settings = settings.model_copy(update={"recording": RecordingSettings(folder=str(tmp_path))})
    with TestClient(create_app(settings, source, decider, metrics)) as client:
        client.post("/v1/score", json={"requirements": {"uid": "u1"}})
    assert only(list(read_recording(tmp_path)), Decision).pod_uid == "u1"
    assert "recording" not in {thread.name for thread in threading.enumerate()}
    assert 'pilotfish_recording_records_total{result="written"} 3.0' in metrics.exposition().decode()
