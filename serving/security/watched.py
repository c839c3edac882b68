"""Files that others replace while we run: the kubelet swaps certificates and tokens in a mounted secret."""

from __future__ import annotations

from pathlib import Path

Stamp = tuple[tuple[int, int, int], ...]


def stamp(*files: str) -> Stamp | None:
    """Changes whenever one of the files is written or replaced; None while one of them is missing."""
    try:
        facts = [Path(file).stat() for file in files]
    except OSError:
        return None
    return tuple((fact.st_ino, fact.st_mtime_ns, fact.st_size) for fact in facts)
