"""What numba's cache on disk cannot see.

A compiled function is kept until the file changes in which it stands. The rules and constants that it took from other
files are compiled into it, and go stale unnoticed. numba makes the values of a closure a part of the key, so a kernel
that closes over the digest of all it was made from is compiled again when any of that changes, and only then.
"""

from __future__ import annotations

import inspect
import zlib
from pathlib import Path
from typing import Any


def digest(*namespaces: dict[str, Any]) -> int:
    """Of modules' globals: the files of all compiled functions among them, and all numbers and tables of columns."""
    pairs = [(name, value) for namespace in namespaces for name, value in namespace.items() if _counts(value)]
    items = sorted(pairs, key=lambda pair: (pair[0], repr(pair[1]) if not hasattr(pair[1], "py_func") else ""))
    files = sorted({inspect.getfile(value.py_func) for _, value in items if hasattr(value, "py_func")})
    constants = [(name, value) for name, value in items if not hasattr(value, "py_func")]
    content = b"".join(Path(file).read_bytes() for file in files)
    return zlib.crc32(repr(constants).encode(), zlib.crc32(content))


def _counts(value: Any) -> bool:
    return hasattr(value, "py_func") or isinstance(value, int | float | tuple)
