"""An import-linter contract that names what may be imported, where the built-in ones name what may not.

A list of forbidden modules forgets the library that is added next year; a list of allowed ones does not.
"""

from __future__ import annotations

from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class AllowedImports(Contract):
    """Direct imports of ``source_modules`` and below, out of ``checked_modules``, are in ``allowed_modules``.

    ``checked_modules`` narrows the check to some packages; without it every import counts. Names may be of modules
    that do not exist yet.
    """

    source_modules = fields.ListField(subfield=fields.StringField())
    allowed_modules = fields.ListField(subfield=fields.StringField())
    checked_modules = fields.ListField(subfield=fields.StringField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        sources: Any = self.source_modules
        checked: Any = self.checked_modules
        allowed = (*sources, *self.allowed_modules)  # type: ignore[misc]
        stray = [
            (importer, imported)
            for importer in sorted(graph.modules)
            if _within(importer, sources)
            for imported in sorted(graph.find_modules_directly_imported_by(importer))
            if (not checked or _within(imported, checked)) and not _within(imported, allowed)
        ]
        return ContractCheck(kept=not stray, metadata={"stray": stray})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for importer, imported in check.metadata["stray"]:
            output.print_error(f"{importer} is not allowed to import {imported}", bold=True)


def _within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)
