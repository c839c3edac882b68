"""Questions to a Prometheus server: every one bounded in time and size, every failure one of two exceptions.

prometheus-api-client asks; by itself it waits for ever, tries three times and reads replies of any length. The session
that we hand it does none of that. It is imported when the first question is asked: the import takes a quarter of a
second and 20 MB, and only the background thread of the collector, or a command, should pay for that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cached_property
from json import JSONDecodeError
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agent.errors import PilotfishError
from envs.live.prometheus_settings import PrometheusSettings

if TYPE_CHECKING:
    from prometheus_api_client import PrometheusConnect

    from envs.live.prometheus_session import BoundedSession

SHOWN_CHARACTERS = 300  # of what a server says of its failure
_OF_THE_QUERY = ("HTTP Status Code 400", "HTTP Status Code 422")  # it cannot be read; it cannot be executed


class PrometheusUnavailable(PilotfishError):
    """Prometheus does not answer: asking it more now makes no sense."""


class ReplyTooLarge(PrometheusUnavailable):
    """The reply has more bytes, or took more time, than one may: a shorter stretch may fit."""


class QueryRefused(PilotfishError):
    """Prometheus is well, but does not answer this question."""


class Series(NamedTuple):
    """One series of a reply: its labels and its values, oldest first. Values may be NaN or infinite."""

    labels: Mapping[str, str]
    times_s: tuple[float, ...]
    values: tuple[float, ...]

    @property
    def value(self) -> float:
        return self.values[-1]

    @property
    def at_s(self) -> float:
        """Of the answer; when the sample was taken is another question."""
        return self.times_s[-1]


class PrometheusClient:
    """Not for several threads at once."""

    def __init__(self, settings: PrometheusSettings) -> None:
        self.settings = settings

    def vector(self, query: str, timeout_s: float | None = None, at_s: float | None = None) -> list[Series]:
        """The newest value of every series; ``at_s`` asks for the past."""
        params = {} if at_s is None else {"time": f"{at_s:.3f}"}
        reply = self._ask(lambda connection: connection.custom_query(query, params), timeout_s)
        return _checked(reply, lambda one: _series(one, [one["value"]]))

    def matrix(self, query: str, from_s: float, to_s: float, step_s: float) -> list[Series]:
        """The values of every series at each step; Prometheus refuses more than 11,000 of them."""
        first, last = (datetime.fromtimestamp(moment_s, UTC) for moment_s in (from_s, to_s))
        reply = self._ask(lambda connection: connection.custom_query_range(query, first, last, f"{step_s:g}"))
        return _checked(reply, lambda one: _series(one, one["values"]))

    def targets(self) -> list[Mapping[str, Any]]:
        """What Prometheus scrapes, as it describes it."""
        return _checked(self._ask(lambda connection: connection.get_targets(state="active")["activeTargets"]), dict)

    def close(self) -> None:
        if "_session" in self.__dict__:
            self._session.close()

    def _ask(self, question: Callable[[PrometheusConnect], Any], timeout_s: float | None = None) -> Any:
        from prometheus_api_client.exceptions import PrometheusApiClientException
        from requests import RequestException, Timeout
        from urllib3.exceptions import HTTPError, TimeoutError

        from envs.live.prometheus_session import ReplyTooLong

        bound_s = self.settings.timeout_s if timeout_s is None else min(timeout_s, self.settings.timeout_s)
        where = self.settings.address
        try:
            connection = self._connection
            connection.headers = _authorization(self.settings.token_file)
            self._session.ends_at_s = time.monotonic() + bound_s
            return question(connection)
        except PrometheusApiClientException as why:
            refused = str(why)[:SHOWN_CHARACTERS]
            kind = QueryRefused if refused.startswith(_OF_THE_QUERY) else PrometheusUnavailable
            raise kind(f"{where} answers: {refused}") from why
        except (JSONDecodeError, KeyError, TypeError, RecursionError) as why:
            raise PrometheusUnavailable(f"{where} does not answer like Prometheus: {_short(why)}") from why
        except ReplyTooLong as why:
            raise ReplyTooLarge(f"{where} does not answer: {why}") from why
        except (Timeout, TimeoutError) as why:
            raise PrometheusUnavailable(f"{where} does not answer within {self.settings.timeout_s:g} s") from why
        except (RequestException, HTTPError, OSError, ValueError) as why:
            raise PrometheusUnavailable(f"{where} does not answer: {_short(why)}") from why

    @cached_property
    def _session(self) -> BoundedSession:
        from envs.live.prometheus_session import BoundedSession

        return BoundedSession(self.settings.max_reply_bytes)

    @cached_property
    def _connection(self) -> PrometheusConnect:
        from prometheus_api_client import PrometheusConnect

        from envs.live.prometheus_session import NEVER

        settings, session = self.settings, self._session
        session.verify = settings.ca_file or True
        return PrometheusConnect(settings.address, session=session, retry=NEVER, timeout=settings.timeout_s)


def _authorization(token_file: str) -> dict[str, str]:
    """Read anew each time: tokens of a cluster are exchanged every hour."""
    if not token_file:
        return {}
    try:
        return {"Authorization": f"Bearer {Path(token_file).read_text(encoding='ascii').strip()}"}
    except (OSError, ValueError) as why:
        raise PrometheusUnavailable(f"the token in {token_file} cannot be read") from why


def _checked(reply: Any, read: Callable[[Any], Any]) -> list[Any]:
    """Each part of the reply in our form; whatever a server sent, the failure is one we know."""
    try:
        return [read(one) for one in reply]
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as why:
        raise PrometheusUnavailable(f"the reply is not as Prometheus writes it: {_short(why)}") from why


def _series(one: Mapping[str, Any], points: list[tuple[float, str]]) -> Series:
    labels = one["metric"]
    if not all(isinstance(value, str) for value in labels.values()):
        raise TypeError("a label is no text")
    return Series(labels, tuple(float(at_s) for at_s, _ in points), tuple(float(value) for _, value in points))


def _short(why: BaseException) -> str:
    """What the operating system said, if it did: libraries wrap it in lines that are different each time."""
    cause: BaseException | None = why
    told = ""
    while cause is not None:
        told = (isinstance(cause, OSError) and cause.strerror) or told
        cause = cause.__cause__ or cause.__context__
    text = told or " ".join(str(why).split()) or type(why).__name__
    return text[:SHOWN_CHARACTERS]
