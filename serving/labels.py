"""Label selectors as kubectl reads them: ``team=web,tier in (front, edge),!legacy``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from agent.errors import InputError

_KEY = r"(?P<key>[A-Za-z0-9][-A-Za-z0-9_./]*)"
_VALUE = r"[-A-Za-z0-9_.]*"
_FORMS = {
    "in": re.compile(rf"{_KEY}\s+in\s*\((?P<values>[^()]*)\)"),
    "notin": re.compile(rf"{_KEY}\s+notin\s*\((?P<values>[^()]*)\)"),
    "!=": re.compile(rf"{_KEY}\s*!=\s*(?P<values>{_VALUE})"),
    "=": re.compile(rf"{_KEY}\s*==?\s*(?P<values>{_VALUE})"),
    "exists": re.compile(_KEY),
    "absent": re.compile(rf"!\s*{_KEY}"),
}
_BETWEEN_TERMS = re.compile(r",(?![^()]*\))")  # a comma inside brackets separates values


@dataclass(frozen=True, slots=True)
class _Term:
    key: str
    form: str
    values: frozenset[str]

    def holds(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if self.form == "exists":
            return value is not None
        if self.form == "absent":
            return value is None
        return (value in self.values) == (self.form in ("=", "in"))


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All terms must hold; without any, everything is selected."""

    terms: tuple[_Term, ...]

    @classmethod
    def parse(cls, text: str) -> LabelSelector:
        return cls(tuple(_term(each.strip()) for each in _BETWEEN_TERMS.split(text)) if text.strip() else ())

    def selects(self, labels: Mapping[str, str]) -> bool:
        return all(term.holds(labels) for term in self.terms)


def _term(text: str) -> _Term:
    for form, pattern in _FORMS.items():
        found = pattern.fullmatch(text)
        if found:
            values = found.groupdict().get("values") or ""
            return _Term(found["key"], form, frozenset(each.strip() for each in values.split(",")))
    raise InputError(f"label selector: {text!r} is no term; write key=value, key!=value, key in (a, b), key or !key")
