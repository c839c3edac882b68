"""Settings and models that change while the sidecar answers. A bad change keeps what was, and says so.

Only some groups can change live. Of the others the old values stay in force until a restart, and that is said, too.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from agent.errors import InputError
from models.manifest import MANIFEST_FILE, MODEL_FILE
from serving.configuration import Configuration, ConfigurationSource
from serving.decide import Decider
from serving.policy import Policy, model_folders, reload_policy
from serving.settings import Settings
from serving.watching import Watcher

logger = logging.getLogger(__name__)

LIVE_GROUPS = ("ladder", "breaker", "rollout", "model", "exploration", "logging")

Applied = Callable[[Settings], None]


class LiveSettings:
    """The settings in force. ``on_change`` is told of every new ones, in the thread that reloads."""

    def __init__(self, settings: Settings, on_reload: Callable[[bool], None] = lambda good: None) -> None:
        self.current = settings
        self._on_reload = on_reload
        self.problem = ""  # why the last reload changed nothing
        self.waiting: tuple[str, ...] = ()  # groups that were changed and need a restart
        self._on_change: list[Applied] = []
        self._lock = threading.Lock()

    def on_change(self, applied: Applied) -> None:
        self._on_change.append(applied)

    def reload(self, read: Callable[[], Configuration]) -> None:
        with self._lock:
            try:
                wanted = read().settings
            except InputError as why:
                self.problem = str(why)
                logger.error("the settings stay as they were: %s", why)
                self._on_reload(False)
                return
            self.problem = ""
            self._apply(wanted)
            self._on_reload(True)

    def _apply(self, wanted: Settings) -> None:
        changed = [name for name in Settings.model_fields if getattr(wanted, name) != getattr(self.current, name)]
        self.waiting = tuple(name for name in changed if name not in LIVE_GROUPS)
        live = {name: getattr(wanted, name) for name in changed if name in LIVE_GROUPS}
        if self.waiting:
            logger.warning("settings of %s changed: they need a restart", ", ".join(self.waiting))
        if not live:
            return
        self.current = self.current.model_copy(update=live)
        for applied in self._on_change:
            applied(self.current)
        logger.info("new settings of %s are in force", ", ".join(live))


class ModelKeeper:
    """Loads models again, when their files or the settings change, or when somebody asks."""

    def __init__(self, decider: Decider, settings: Settings, on_reload: Callable[[Policy], None]) -> None:
        self._decider = decider
        self._settings = settings
        self._on_reload = on_reload
        self._lock = threading.Lock()

    def reload(self) -> Policy:
        """Load the models of the settings; what cannot be used leaves the old ones in place."""
        with self._lock:
            policy = reload_policy(self._settings.model, self._decider.policy, self._decider.deadline_s)
            self._decider.reconfigure(self._settings, policy)
            self._on_reload(policy)
            return policy

    def apply(self, settings: Settings) -> None:
        """New settings: other models are loaded, the ladder gets its new limits."""
        with self._lock:
            before, self._settings = self._settings, settings
            keep_breakers = settings.breaker == before.breaker
            self._decider.reconfigure(settings, self._decider.policy, keep_breakers)
        if settings.model != before.model:
            self.reload()

    def files(self) -> Iterable[Path]:
        folders = model_folders(self._settings.model)
        return [folder / name for folder in folders for name in (MANIFEST_FILE, MODEL_FILE)]


def watcher_of(live: LiveSettings, models: ModelKeeper, source: ConfigurationSource) -> Watcher:
    """Looks at the settings file and the model folders as often as the settings say."""
    watcher = Watcher(live.current.reload.every_s)
    watcher.watch(source.files, lambda: live.reload(source.read))
    watcher.watch(models.files, models.reload)
    return watcher
