"""The tables of docs/training.md and docs/live_training.md, made from the fields of the configurations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from training.config import Part, TrainConfig

BEGIN = "<!-- fields: made by training.config_docs, a test keeps them equal -->"
END = "<!-- end -->"


def with_fields(page: str, kind: type[Part] = TrainConfig) -> str:
    """The page with the table between its two marks made again."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{as_markdown(kind)}\n{END}{after}"


def as_markdown(kind: type[Part]) -> str:
    rows = [f"| `{name}` | {_default(field)} | {field.description} |" for name, field in _fields(kind)]
    return "\n".join(["| field | default | meaning |", "|---|---|---|", *rows])


def _fields(kind: type[Part], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every value, parts one after the other."""
    for name, field in kind.model_fields.items():
        part = _part(field.annotation)
        if field.description:
            yield prefix + name, field
        if part is not None:
            listed = "[]" if get_origin(field.annotation) is list else ""
            yield from _fields(part, f"{prefix}{name}{listed}.")


def _part(annotation: Any) -> type[Part] | None:
    """The part inside a field: itself, or the elements of a list of them."""
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, Part):
            return candidate
    return None


def _default(field: FieldInfo) -> str:
    if field.is_required() or isinstance(field.default, BaseModel):
        return ""
    return "`null`" if field.default is None else f"`{field.default}`"
