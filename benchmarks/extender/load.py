"""Many at once: wrk keeps every connection busy, and its slowest answer is the number that counts."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from agent.errors import InputError
from benchmarks.extender.client import HOST, a_body

PODS = 32
SCRIPT = """
local bodies, number = {}, 0
for line in io.lines("%s") do bodies[#bodies + 1] = line end
local headers = {["Content-Type"] = "application/json"}
request = function()
  number = number + 1
  return wrk.format("POST", "/extender/prioritize", headers, bodies[number %% #bodies + 1])
end
done = function(summary, latency)
  local errors = summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout
  io.write(string.format('\\n{"requests": %%d, "failed": %%d, "p50_ms": %%f, "p99_ms": %%f, "latest_ms": %%f}\\n',
    summary.requests, errors + summary.errors.status, latency:percentile(50) / 1000, latency:percentile(99) / 1000,
    latency.max / 1000))
end
"""


@dataclass(frozen=True, slots=True)
class Load:
    requests: int
    failed: int
    p50_ms: float
    p99_ms: float
    latest_ms: float


def under_load(port: int, nodes: int, connections: int, seconds: int) -> Load:
    if shutil.which("wrk") is None:
        raise InputError("the benchmark needs wrk: apt-get install wrk")
    with TemporaryDirectory() as folder:
        bodies, script = Path(folder) / "bodies", Path(folder) / "load.lua"
        bodies.write_text("".join(json.dumps(a_body(nodes, number)) + "\n" for number in range(PODS)), encoding="utf-8")
        script.write_text(SCRIPT % bodies, encoding="utf-8")
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s", "-s", str(script)]
        answer = subprocess.run([*command, f"http://{HOST}:{port}"], capture_output=True, text=True, check=True)
    return Load(**json.loads(answer.stdout.strip().splitlines()[-1]))
