"""Settings as text: what `pilotfish config` prints."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from serving.configuration import DEFAULT, Configuration, is_secret
from serving.settings import Settings, group_fields

MASK = "********"


def as_yaml(found: Configuration) -> str:
    """A settings file of everything in force, with the sources as comments."""
    lines: list[str] = []
    for group in Settings.model_fields:
        lines.append(f"{group}:")
        shown = [(f"  {name}: {json.dumps(value)}", source) for name, value, source in _rows(found, group)]
        width = max(len(text) for text, _ in shown)
        lines += [f"{text:<{width}}  # {source}" for text, source in shown]
    return "\n".join(lines)


def as_json_text(found: Configuration) -> str:
    content = {
        group: {name: {"value": value, "source": source} for name, value, source in _rows(found, group)}
        for group in Settings.model_fields
    }
    return json.dumps(content, indent=1)


def verdict(found: Configuration) -> str:
    given = Counter(source != DEFAULT for source in found.sources.values())
    where = f", the file {found.path} included" if found.path else ""
    return f"valid: {given[True]} settings given, {given[False]} defaults{where}"


def schema_text() -> str:
    return json.dumps(Settings.model_json_schema(), indent=1)


def _rows(found: Configuration, group: str) -> Iterator[tuple[str, Any, str]]:
    values = getattr(found.settings, group)
    plain = values.model_dump(mode="json")
    for name in group_fields(group):
        secret = is_secret(name, getattr(values, name))
        yield name, MASK if secret else plain[name], found.sources[group, name]
