"""Objects of the Kubernetes API as YAML, with comments for the people who will keep it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

Manifest = dict[str, Any]


class _Dumper(yaml.SafeDumper):
    """Every object in full: no anchors, and text of several lines as a block."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def dumped(content: Any) -> str:
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


def commented(comment: str, content: Manifest) -> str:
    lines = [f"# {line}".rstrip() for line in comment.strip().splitlines()]
    return "\n".join([*lines, dumped(content)])


def documents(comment: str, objects: Iterable[Manifest]) -> str:
    first, *others = objects
    return "---\n".join([commented(comment, first), *map(dumped, others)])
