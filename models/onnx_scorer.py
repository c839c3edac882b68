"""The trained policy as the sidecar runs it: onnxruntime on one thread, no torch.

Two things keep a policy from answering nonsense about a cluster unlike those it learned from. Every value is clipped to
what training saw, so that one odd node cannot blow up the sums of all. And if more than 5 % of the values lie off
the 0.1 to 99.9 percentiles of training, the policy does not answer at all and the next step of the ladder does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import onnxruntime as ort  # type: ignore[import-untyped]

from agent.cluster import BoolArray, ClusterState, Demand, FloatArray
from agent.errors import InputError
from agent.features import NODE_FEATURES, POD_FEATURES, Encoding, FeatureArray, encode
from agent.scorer import OutOfRange, ScoringUnavailable
from models.manifest import MODEL_FILE, FeatureRange, Manifest, read_model
from models.trial import refuse_nonsense

INPUTS = ("nodes", "pod", "mask")
OUTPUT = "scores"
MAX_SHARE_OUTSIDE = 0.05
_ERRORS_ONLY = 3


class OnnxScorer:
    """A ``FeatureScorer``. ``rate`` always answers; ``score`` of one cluster refuses what training never saw."""

    name: ClassVar[str] = "policy"
    needs: ClassVar[tuple[str, ...]] = ("cpu", "memory", "network")

    def __init__(self, manifest: Manifest, model: bytes, threads: int = 1) -> None:
        self.manifest = manifest
        self._nodes = _Bounds.of(manifest.node_features, NODE_FEATURES)
        self._pod = _Bounds.of(manifest.pod_features, POD_FEATURES)
        self._session = ort.InferenceSession(model, _options(threads), providers=["CPUExecutionProvider"])
        _check_interface(self._session)

    @classmethod
    def load(cls, folder: Path, threads: int = 1) -> OnnxScorer:
        """The model of a folder, tried; whatever is wrong with it is one ``InputError``."""
        manifest, model = read_model(folder)
        try:
            scorer = cls(manifest, model, threads)
            refuse_nonsense(scorer)
            return scorer
        except InputError as why:
            raise InputError(f"{folder / MODEL_FILE}: {why}; export the model again") from why
        except Exception as why:  # onnxruntime has no common base for its errors
            line = str(why).partition("\n")[0]
            raise InputError(
                f"{folder / MODEL_FILE}: onnxruntime cannot run it ({line}); export the model again"
            ) from why

    def rate(self, encoding: Encoding, candidates: BoolArray) -> FloatArray:
        """Logits ``(..., nodes)`` of one cluster or a batch; values of other nodes mean nothing."""
        lead = candidates.shape[:-1]
        one_batch = (int(np.prod(lead)), candidates.shape[-1])
        clipped = self.clipped(encoding)
        feed = {
            "nodes": clipped.nodes.reshape(*one_batch, len(NODE_FEATURES)),
            "pod": clipped.pod.reshape(one_batch[0], len(POD_FEATURES)),
            "mask": np.ascontiguousarray(candidates).reshape(one_batch),
        }
        (scores,) = self._session.run([OUTPUT], feed)
        if scores.shape != one_batch:
            raise ScoringUnavailable(f"model {self.manifest.label} gave {scores.shape} scores, not {one_batch}")
        values: FloatArray = np.asarray(scores, dtype=np.float64).reshape(candidates.shape)
        wrong = np.count_nonzero(~np.isfinite(values) & candidates)
        if wrong:
            raise ScoringUnavailable(f"{wrong} scores of model {self.manifest.label} are not finite")
        return values

    def clipped(self, encoding: Encoding) -> Encoding:
        """As the network gets it: within what training saw."""
        return Encoding(self._nodes.clipped(encoding.nodes), self._pod.clipped(encoding.pod))

    def score(self, state: ClusterState, demand: Demand, candidates: BoolArray) -> FloatArray:
        encoding = encode(state, demand, candidates)
        if candidates.ndim == 1:
            _refuse_outside(self.share_outside(encoding, candidates), self.manifest)
        return self.rate(encoding, candidates)

    def share_outside(self, encoding: Encoding, candidates: BoolArray) -> FloatArray:
        """Share of the candidates' and the pod's values off the percentiles of training, ``(...)``."""
        nodes = self._nodes.outside(encoding.nodes)
        nodes &= candidates[..., None]
        pod = self._pod.outside(encoding.pod)
        if candidates.ndim == 1:  # one cluster: counting without axes takes a fraction of the time
            outside, count = np.count_nonzero(nodes) + np.count_nonzero(pod), np.count_nonzero(candidates)
        else:
            outside, count = nodes.sum(axis=(-2, -1)) + pod.sum(axis=-1), candidates.sum(axis=-1)
        return np.asarray(outside / (count * len(NODE_FEATURES) + len(POD_FEATURES)))

    def out_of_range(self, encoding: Encoding, candidates: BoolArray) -> BoolArray:
        """Where the policy does not answer, ``(...)``."""
        return np.asarray(self.share_outside(encoding, candidates) > MAX_SHARE_OUTSIDE)


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The ranges of a manifest as arrays, in the order of the features."""

    min: FeatureArray
    low: FeatureArray
    high: FeatureArray
    max: FeatureArray

    @classmethod
    def of(cls, ranges: Mapping[str, FeatureRange], names: Mapping[str, str]) -> _Bounds:
        rows = [(each.min, each.low, each.high, each.max) for each in (ranges[name] for name in names)]
        return cls(*np.array(rows, dtype=np.float32).T.copy())

    def clipped(self, values: FeatureArray) -> FeatureArray:
        clipped: FeatureArray = np.maximum(values, self.min)  # np.clip does the same, later
        return np.minimum(clipped, self.max, out=clipped)

    def outside(self, values: FeatureArray) -> BoolArray:
        return ~((values >= self.low) & (values <= self.high))


def _options(threads: int) -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.use_deterministic_compute = True
    # Both would keep memory for every size of cluster ever scored, and neither saves time.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.log_severity_level = _ERRORS_ONLY
    return options


def _check_interface(session: ort.InferenceSession) -> None:
    given = {each.name: each.shape for each in session.get_inputs()}
    widths = {"nodes": len(NODE_FEATURES), "pod": len(POD_FEATURES)}
    if set(given) != set(INPUTS) or [each.name for each in session.get_outputs()] != [OUTPUT]:
        raise InputError(f"it must take {', '.join(INPUTS)} and give {OUTPUT}")
    for name, width in widths.items():
        if given[name][-1] != width:
            raise InputError(f"it takes {given[name][-1]} {name} features, the schema has {width}")


def _refuse_outside(share: FloatArray, manifest: Manifest) -> None:
    if share > MAX_SHARE_OUTSIDE:
        raise OutOfRange(
            f"{float(share):.1%} of the values are off the range that model {manifest.label} was trained on,"
            f" more than {MAX_SHARE_OUTSIDE:.0%}"
        )
