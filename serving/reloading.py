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
from serving.settings import Settings, group_fields
from serving.watching import Watcher

logger = logging.getLogger(__name__)

LIVE_GROUPS = ("ladder", "breaker", "rollout", "model", "exploration", "logging", "prometheus", "probe")

Applied = Callable[[Settings], None]


class LiveSettings:
    """The settings in force. ``on_change`` is told of every new ones, in the thread that reloads."""

    def __init__(self, settings: Settings, on_reload: Callable[[bool], None] = lambda good: None) -> None:
        self.current = settings
        self._on_reload = on_reload
        self.problem = ""  # why the last reload changed nothing
        self.waiting: tuple[str, ...] = ()  # settings that were changed and need a restart
        self._checks: list[Callable[[Settings], object]] = []
        self._on_change: list[Applied] = []
        self._lock = threading.Lock()

    def check(self, check: Callable[[Settings], object]) -> None:
        """Whoever may raise ``InputError`` about new settings is asked before they are in force for anybody."""
        self._checks.append(check)

    def on_change(self, applied: Applied) -> None:
        self._on_change.append(applied)

    def reload(self, read: Callable[[], Configuration]) -> None:
        with self._lock:
            try:
                wanted = read().settings
                for check in self._checks:
                    check(self._live(wanted))
            except InputError as why:
                self.problem = str(why)
                logger.error("the settings stay as they were: %s", why)
                self._on_reload(False)
                return
            self.problem = ""
            self._apply(wanted)
            self._on_reload(True)

    def _live(self, wanted: Settings) -> Settings:
        """What can be in force at once; the rest as it was."""
        return self.current.model_copy(update={name: getattr(wanted, name) for name in LIVE_GROUPS})

    def _apply(self, wanted: Settings) -> None:
        live = self._live(wanted)
        self.waiting = changes(live, wanted)
        if self.waiting:
            logger.warning("%s changed: needs a restart", ", ".join(self.waiting))
        new = changes(self.current, live)
        if not new:
            return
        self.current = live
        for applied in self._on_change:
            applied(live)
        logger.info("in force from now on: new %s", ", ".join(new))


def changes(before: Settings, after: Settings) -> tuple[str, ...]:
    """The settings that differ, as group.field."""
    return tuple(
        f"{group}.{name}"
        for group in Settings.model_fields
        for name in group_fields(group)
        if getattr(getattr(before, group), name) != getattr(getattr(after, group), name)
    )


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
