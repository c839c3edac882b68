"""How long to wait after the n-th failure in a row: longer each time, never too long, never all at once."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

FIRST_S = 0.2
LONGEST_S = 30.0


@dataclass(slots=True)
class Backoff:
    """A thousand sidecars must not come back to a restarted API server in the same second."""

    random: Callable[[], float] = random.random
    failures: int = 0

    def after_failure(self, at_least_s: float = 0.0) -> float:
        """Seconds to wait now; ``at_least_s`` is what the server asked for (Retry-After)."""
        self.failures += 1
        longest_s = min(FIRST_S * 2.0 ** min(self.failures - 1, 20), LONGEST_S)
        return max(longest_s * (0.5 + 0.5 * self.random()), min(at_least_s, LONGEST_S))

    def succeeded(self) -> None:
        self.failures = 0
