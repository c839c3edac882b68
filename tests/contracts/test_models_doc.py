"""What docs/models.md tells people to type is understood by the commands."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

import pilotfish

TEXT = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
LINES = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()]
WORK = {
    "train": "training.train.run",
    "export": "training.release.run",
    "evaluate": "training.evaluate.run",
    "card": "training.card.run",
    "demo": "serving.run.run",
}


@pytest.mark.parametrize("line", LINES)
def test_every_command_is_understood(line, monkeypatch):
    words = shlex.split(line.partition(" > ")[0], comments=True)
    arguments = words[words.index("pilotfish") + 1 :]
    asked = []
    monkeypatch.setattr(WORK[arguments[0]], lambda *given, **options: asked.append((given, options)) or Answer())
    monkeypatch.setattr(sys, "argv", ["pilotfish", *arguments])
    with pytest.raises(SystemExit) as end:
        pilotfish.main()
    assert (end.value.code, len(asked)) == (0, 1)


class Answer:
    label = "default@0"
