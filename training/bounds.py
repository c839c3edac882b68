"""What no scheduler can beat in a small world: the placements solved as a mixed-integer program, everything known.

In it are the terms that are linear in the placements, or become so with one more variable: lost traffic, CPU
throttling, traffic between zones, energy and money. Latency, kills, imbalance, fragmentation, waiting and failures are
left out; none is negative, so the optimum is a lower bound of the whole cost. Compare it with the same five terms of a
policy; the gap also holds what only a clairvoyant can have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp  # type: ignore[import-untyped]
from scipy.sparse import csr_matrix  # type: ignore[import-untyped]

from agent.cluster import FloatArray, IntArray
from envs.dynamics.costs import JOULES_PER_KWH, MBIT_PER_GB, SECONDS_PER_HOUR, TERM
from envs.rewards import WEIGHTS
from training.offline_problem import NOWHERE, Problem

BOUNDED_TERMS = ("network_loss", "cross_zone", "cpu_throttling", "energy", "money")


@dataclass
class Program:
    """A mixed-integer program while it is written: columns with costs and limits, rows of at most a limit."""

    cost: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    whole: list[int] = field(default_factory=list)
    constant: float = 0.0
    entries: list[tuple[int, int, float]] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)

    def variable(self, cost: float = 0.0, upper: float = np.inf, whole: bool = False) -> int:
        self.cost.append(cost)
        self.upper.append(upper)
        self.whole.append(int(whole))
        return len(self.cost) - 1

    def at_most(self, limit: float, *parts: tuple[int, float]) -> None:
        row = len(self.limits)
        self.entries += [(row, column, factor) for column, factor in parts]
        self.limits.append(limit)


@dataclass
class Expression:
    """A constant and variables with factors: a placement that is given is a constant."""

    constant: float = 0.0
    parts: list[tuple[int, float]] = field(default_factory=list)

    def add(self, other: Expression, factor: float = 1.0) -> None:
        self.constant += factor * other.constant
        self.parts += [(column, factor * each) for column, each in other.parts]


@dataclass(frozen=True, slots=True)
class Bound:
    """Dollars an hour of the bounded terms: proven, and reached by the best placement found."""

    proven: float
    reached: float | None
    decided_pods: int


def solve(problem: Problem, seconds: float = 20.0, fixed: IntArray | None = None) -> Bound:
    """The bound of one small world. With ``fixed``, the node of every pod, what exactly these placements cost."""
    program = Program()
    on = _placements(program, problem, fixed)
    _room(program, problem, on)
    _nodes(program, problem, on, _flows(program, problem, on))
    rows, columns, values = zip(*program.entries, strict=True)
    matrix = csr_matrix((values, (rows, columns)), shape=(len(program.limits), len(program.cost)))
    answer = milp(
        np.array(program.cost),
        integrality=np.array(program.whole),
        bounds=Bounds(0.0, np.array(program.upper)),
        constraints=LinearConstraint(matrix, ub=np.array(program.limits)),
        options={"time_limit": seconds, "mip_rel_gap": 1e-4},
    )
    if answer.mip_dual_bound is None and answer.fun is None:
        raise RuntimeError(f"HiGHS found no bound: {answer.message}")
    found = None if answer.fun is None else float(answer.fun) + program.constant
    proven = float(answer.fun if answer.mip_dual_bound is None else answer.mip_dual_bound) + program.constant
    reached = None if found is None else found / problem.hours
    return Bound(proven / problem.hours, reached, int((problem.given == NOWHERE).sum()))


Placed = list[list[Expression]]  # [pod][node]: 1 if the pod is there


def _placements(program: Program, problem: Problem, fixed: IntArray | None) -> Placed:
    nodes = len(problem.tape.node_zone)
    where = problem.given if fixed is None else fixed
    found: Placed = []
    for node_given in where:
        if node_given == NOWHERE:
            columns = [program.variable(upper=1.0, whole=True) for _ in range(nodes)]
            program.at_most(1.0, *((column, 1.0) for column in columns))
            program.at_most(-1.0, *((column, -1.0) for column in columns))
            found.append([Expression(0.0, [(column, 1.0)]) for column in columns])
        else:
            found.append([Expression(float(node == node_given)) for node in range(nodes)])
    return found


def _room(program: Program, problem: Problem, on: Placed) -> None:
    """Requests fit at all times."""
    tape = problem.tape
    for request, capacity in (
        (problem.column("pod_cpu_request_millicores"), tape.node_cpu_millicores),
        (problem.column("pod_memory_request_mib"), tape.node_memory_mib),
    ):
        for span in range(len(problem.span_s)):
            for node, limit in enumerate(capacity):
                total = Expression()
                for pod in np.flatnonzero(problem.runs[:, span]):
                    total.add(on[pod][node], float(request[pod]))
                if total.parts:
                    program.at_most(float(limit) - total.constant, *total.parts)


def _flows(program: Program, problem: Problem, on: Placed) -> list[list[Expression]]:
    """Sibling traffic: between zones it is paid for; between nodes it loads both NICs, [node][span] in Mbps."""
    tape, spans = problem.tape, range(len(problem.span_s))
    loads = [[Expression() for _ in spans] for _ in tape.node_zone]
    for one, other, mbps in problem.pairs():
        sent_gb = 2.0 * float(mbps @ problem.span_s) / MBIT_PER_GB
        _pay_between_zones(program, problem, on[one], on[other], sent_gb * WEIGHTS.cross_zone)
        for node in range(len(tape.node_zone)):
            together = _both(program, on[one][node], on[other][node])
            for span in np.flatnonzero(mbps):
                for pod in (one, other):
                    loads[node][span].add(on[pod][node], float(mbps[span]))
                loads[node][span].add(together, -2.0 * float(mbps[span]))
    return loads


def _both(program: Program, one: Expression, other: Expression) -> Expression:
    """At most 1 if both are there; the solver wants it as large as can be, since it takes load off the NICs."""
    if not one.parts or not other.parts:
        given, free = (one, other) if not one.parts else (other, one)
        return free if given.constant > 0 else Expression()
    column = program.variable(upper=1.0)
    for each in (one, other):
        program.at_most(0.0, (column, 1.0), *((place, -factor) for place, factor in each.parts))
    return Expression(0.0, [(column, 1.0)])


def _pay_between_zones(
    program: Program, problem: Problem, one: Sequence[Expression], other: Sequence[Expression], usd: float
) -> None:
    apart = program.variable(cost=usd, upper=1.0)
    for zone in np.unique(problem.tape.node_zone):
        gap = Expression()
        for node in np.flatnonzero(problem.tape.node_zone == zone).tolist():
            gap.add(one[node])
            gap.add(other[node], -1.0)
        for sign in (1.0, -1.0):
            parts = ((column, sign * factor) for column, factor in gap.parts)
            program.at_most(-sign * gap.constant, (apart, -1.0), *parts)


def _nodes(program: Program, problem: Problem, on: Placed, flows: list[list[Expression]]) -> None:
    """What every node costs in every span: losses over its capacity, money and energy while it holds pods."""
    tape, load = problem.tape, problem.load()
    use = {"cpu": problem.column("pod_cpu_request_millicores") * problem.column("pod_cpu_use_ratio")}
    use |= {"rx": problem.column("pod_rx_mbps"), "tx": problem.column("pod_tx_mbps")}
    per_gb = WEIGHTS.network_loss / MBIT_PER_GB
    for node in range(len(tape.node_zone)):
        nic, cpu = float(tape.node_nic_mbps[node]), float(tape.node_cpu_millicores[node])
        idle = float(tape.node_power_idle_watts[node])
        slope = float(tape.node_power_peak_watts[node]) - idle
        for span, span_s in enumerate(problem.span_s):
            running = np.flatnonzero(problem.runs[:, span])
            step = problem.step[span]
            wanted = {kind: Expression() for kind in use}
            for pod in running:
                for kind, values in use.items():
                    wanted[kind].add(on[pod][node], float(values[pod] * load[pod, span]))
            holds = _holds_pods(program, [on[pod][node] for pod in running])
            joule_usd = float(span_s) * WEIGHTS.energy / JOULES_PER_KWH
            price = float(tape.node_price_usd_per_hour[node]) * WEIGHTS.money * span_s / SECONDS_PER_HOUR
            background = float(tape.background_cpu_ratio[step, node])
            _pay(program, holds, float(price) + joule_usd * (idle + slope * background))
            _pay(program, wanted["cpu"], joule_usd * slope / cpu)
            throttled = float(span_s) * WEIGHTS.cpu_throttling / 1000.0 - joule_usd * slope / cpu
            _pay_over(program, wanted["cpu"], cpu * (1.0 - background), throttled)
            for kind, ratio in (("rx", tape.background_rx_ratio), ("tx", tape.background_tx_ratio)):
                wanted[kind].add(flows[node][span])
                _pay_over(program, wanted[kind], nic * (1.0 - float(ratio[step, node])), float(span_s) * per_gb)


def _holds_pods(program: Program, pods: Sequence[Expression]) -> Expression:
    if any(not each.parts and each.constant > 0 for each in pods):
        return Expression(1.0)
    free = [each for each in pods if each.parts]
    if not free:
        return Expression()
    column = program.variable(upper=1.0)
    for each in free:
        program.at_most(0.0, (column, -1.0), *each.parts)
    return Expression(0.0, [(column, 1.0)])


def _pay(program: Program, amount: Expression, usd: float) -> None:
    program.constant += usd * amount.constant
    for column, factor in amount.parts:
        program.cost[column] += usd * factor


def _pay_over(program: Program, amount: Expression, capacity: float, usd: float) -> None:
    """Dollars for each unit above the capacity."""
    most = amount.constant + sum(factor for _, factor in amount.parts if factor > 0)
    if most <= capacity:
        return
    if not amount.parts:
        program.constant += usd * (amount.constant - capacity)
        return
    over = program.variable(cost=usd)
    program.at_most(capacity - amount.constant, (over, -1.0), *amount.parts)


def bounded_cost_per_hour(terms_per_hour: FloatArray) -> FloatArray:
    """Dollars an hour of the terms that the bound covers, (...)."""
    return np.asarray(sum(terms_per_hour[..., TERM[name]] * getattr(WEIGHTS, name) for name in BOUNDED_TERMS))
