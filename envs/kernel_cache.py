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


def digest(namespace: dict[str, Any]) -> int:
    """Of a module's globals: the files of all compiled functions among them, and all numbers and tables of columns."""
    functions = [value.py_func for value in namespace.values() if hasattr(value, "py_func")]
    files = sorted({inspect.getfile(function) for function in functions})
    constants = {name: value for name, value in sorted(namespace.items()) if isinstance(value, int | float | tuple)}
    content = b"".join(Path(file).read_bytes() for file in files)
    return zlib.crc32(repr(constants).encode(), zlib.crc32(content))
