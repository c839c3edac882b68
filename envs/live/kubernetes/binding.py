"""Binds pods through the API server, where the extender has taken that over from kube-scheduler."""

from __future__ import annotations

from envs.live.binding import Binding, BindingRefused, BindingUnanswered
from envs.live.kubernetes.api import ApiError, ApiServer

WITHIN_S = 4.0  # kube-scheduler waits 5 s by default
UNANSWERED = (0, 500, 504)  # no status at all, or one of a server that may have written the binding none the less


class ApiBinder:
    """A ``Binder``. Nothing is tried twice: kube-scheduler puts a pod that is not bound back into its queue."""

    def __init__(self, api: ApiServer, within_s: float = WITHIN_S) -> None:
        self._api = api
        self._within_s = within_s

    def bind(self, binding: Binding) -> None:
        try:
            self._api.post(binding.path, binding.content, self._within_s)
        except ApiError as why:
            kind = BindingUnanswered if why.code in UNANSWERED else BindingRefused
            raise kind(str(why)) from why
