"""The log: lines for people, or one JSON object a line for machines; and a line for decisions, with their source."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime

import orjson

from serving.decisions import Event
from serving.settings import LoggingSettings

logger = logging.getLogger(__name__)

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
FIELDS = "pilotfish"  # extra fields of a record, for the JSON form
LINE = "pod %s/%s (%s): %s by %s of %d candidates in %.2f ms; %s"
IN_LINE = ("namespace", "name", "uid", "best", "source", "candidates", "took_ms", "reason")
IN_JSON = (*IN_LINE, "model", "mode", "applied")


class JsonLines(logging.Formatter):
    """{"at": ..., "level": ..., "logger": ..., "message": ...} and the fields of the record."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


def set_up_logging(settings: LoggingSettings) -> None:
    """Everything goes to stderr; called again when the settings change."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if settings.format == "json" else logging.Formatter(TEXT))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.level.upper())


class DecisionLog:
    """A line for some decisions at level info, for all at level debug (S1.7)."""

    def __init__(self, settings: Callable[[], LoggingSettings]) -> None:
        self._settings = settings

    def __call__(self, event: Event) -> None:
        if event.kind != "decision" or event.noted is None:
            return
        level = logging.INFO if _drawn(event.noted.number, self._settings().decision_share) else logging.DEBUG
        if logger.isEnabledFor(level):
            told = event.noted.summary()
            logger.log(level, LINE, *(told[name] for name in IN_LINE), extra={FIELDS: {n: told[n] for n in IN_JSON}})


def _drawn(number: int, share: float) -> bool:
    """Evenly spread: with a share of 1 % every hundredth."""
    return int(number * share) > int((number - 1) * share)
