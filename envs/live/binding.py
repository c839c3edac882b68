"""Binding a pod to a node: what an extender does that has taken the ``bind`` verb from kube-scheduler.

The API server is told through ``pods/binding``; whoever holds the connection to it implements ``Binder``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

from agent.errors import PilotfishError


class BindingRefused(PilotfishError):
    """The pod is not bound; the message says why. kube-scheduler puts the pod back into its queue."""


class BindingUnanswered(BindingRefused):
    """Nobody said whether the pod is bound: the request was cut off, or the API server gave up on it."""


@dataclass(frozen=True, slots=True)
class Binding:
    namespace: str
    pod: str
    uid: str
    node: str

    @property
    def path(self) -> str:
        """Of the subresource, below the address of the API server."""
        return f"/api/v1/namespaces/{quote(self.namespace, safe='')}/pods/{quote(self.pod, safe='')}/binding"

    @property
    def content(self) -> dict[str, Any]:
        """The UID keeps a pod of the same name that came later from being bound in its place."""
        return {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": self.namespace, "name": self.pod, "uid": self.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": self.node},
        }


class Binder(Protocol):
    def bind(self, binding: Binding) -> None:
        """Tell the API server, within a time limit; raises ``BindingRefused``. May wait: called in a thread."""
        ...
