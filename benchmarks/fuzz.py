"""``pilotfish benchmark fuzz`` (and ``make fuzz``): odd requests by the ten thousand, and what they broke.

The properties are those of tests/serving/test_fuzz.py. They run in parts, each with a seed of its own, because what
hypothesis remembers of its cases grows.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.bars import Bar, measured

PARTS = 12
CASES = 1500  # of each property in a part; routes of the API have a tenth of it each
QUICK_CASES = 20
ROOT = Path(__file__).parents[1]
TESTS = "tests/serving/test_fuzz.py"
EXAMPLES = re.compile(r"(\d+) passing, (\d+) failing, and \d+ invalid test cases")  # as hypothesis words it


class Part(NamedTuple):
    seed: int
    cases: int
    failed: int  # properties


def run(quick: bool, traces: Path | None) -> Iterator[Bar]:
    parts = 1 if quick else PARTS
    return bars(part(seed, QUICK_CASES if quick else CASES) for seed in range(parts))


def bars(parts: Iterable[Part]) -> Iterator[Bar]:
    done = list(parts)
    seeds = [each.seed for each in done]
    yield measured("fuzz_cases", sum(each.cases for each in done), seeds=seeds)
    yield measured("fuzz_failures", sum(each.failed for each in done))


def part(seed: int, cases: int) -> Part:
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "--timeout=0",
        f"--hypothesis-seed={seed}",
        "--hypothesis-show-statistics",
    ]
    command = [sys.executable, "-m", "pytest", *options, TESTS]
    given = os.environ | {"PILOTFISH_FUZZ_CASES": str(cases)}
    told = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, check=False)
    counts = [sum(map(int, found)) for found in EXAMPLES.findall(told.stdout)]
    if told.returncode:
        sys.stderr.write(told.stdout[-20_000:])
    failed = len(re.findall(r"^(?:FAILED|ERROR) ", told.stdout, re.MULTILINE))
    return Part(seed, sum(counts), max(failed, int(told.returncode != 0)))


if __name__ == "__main__":  # one part of many, as JSON: python -m benchmarks.fuzz SEED
    import json

    sys.stdout.write(json.dumps(part(int(sys.argv[1]), CASES)._asdict()) + "\n")
