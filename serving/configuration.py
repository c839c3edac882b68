"""Where settings come from: options of the command line, then the environment, then a file, then the defaults.

Everything that was given is checked, also what a stronger source overrides: a misspelt name is refused with the names
there are, a wrong value with the place it stands in. The same places can be read again while the sidecar runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import SecretStr, ValidationError
from pydantic_settings import EnvSettingsSource, SettingsError

from agent.errors import InputError
from serving.settings import ENV_DELIMITER, ENV_PREFIX, Settings, group_fields, variable

CONFIG_VARIABLE = f"{ENV_PREFIX}CONFIG"
MAX_FILE_BYTES = 1 << 20
DEFAULT = "default"

Groups = Mapping[str, Mapping[str, Any]]


class _Layer(NamedTuple):
    """What one source gives, and what it calls a setting."""

    given: dict[str, Any]
    called: str  # a format of {group}, {field} and {variable}

    def name(self, group: str, field: str) -> str:
        return self.called.format(group=group, field=field, variable=variable((group, field)))


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings in force, and for each one where it comes from."""

    settings: Settings
    sources: Mapping[tuple[str, str], str]
    path: Path | None = None


@dataclass(frozen=True, slots=True)
class ConfigurationSource:
    """Knows where to look; ``read`` looks."""

    path: Path | None = None
    options: Groups = field(default_factory=dict)  # None: not given
    assignments: Sequence[str] = ()  # group.field=value

    def read(self) -> Configuration:
        path = self.file()
        layers = [*self._from_command_line(), _from_environment(), *([_from_file(path)] if path else [])]
        for layer in layers:
            _refuse_unknown(layer)
        settings, sources = _merged(layers)
        return Configuration(_validated(settings, sources), sources, path)

    def file(self) -> Path | None:
        """The settings file, if one is named."""
        named = os.environ.get(CONFIG_VARIABLE, "")
        return self.path or (Path(named) if named else None)

    def files(self) -> list[Path]:
        """What to look at for changes."""
        path = self.file()
        return [] if path is None else [path]

    def _from_command_line(self) -> Iterator[_Layer]:
        given = {
            group: {name: value for name, value in values.items() if value is not None}
            for group, values in self.options.items()
        }
        yield _Layer({group: values for group, values in given.items() if values}, "--{field}")
        yield _Layer(_assigned(self.assignments), "--set {group}.{field}")


def load_settings(**options: dict[str, Any]) -> Settings:
    """Settings of environment and file, groups given here on top: ``load_settings(server={"port": 9000})``."""
    return ConfigurationSource(options=options).read().settings


def is_secret(name: str, value: Any) -> bool:
    """Values that no output may show; the name of a file that holds one may be shown."""
    secretive = any(word in name for word in ("token", "password", "secret")) and not name.endswith(("_file", "_path"))
    return isinstance(value, SecretStr) or (secretive and isinstance(value, str) and value != "")


def _from_environment() -> _Layer:
    for key in os.environ:
        upper = key.upper()
        if upper.startswith(ENV_PREFIX) and ENV_DELIMITER in upper:  # others are not ours, such as *_SERVICE_HOST
            group = upper.removeprefix(ENV_PREFIX).partition(ENV_DELIMITER)[0].lower()
            _refuse_unknown_group(group, key)
    try:
        given = EnvSettingsSource(Settings)()
    except SettingsError as why:  # a whole group was given and is no JSON
        raise InputError(f"settings: {why}; set single fields as {variable(('group', 'field'))}") from why
    return _Layer(given, "{variable}")


def _from_file(path: Path) -> _Layer:
    try:
        with path.open("rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)
        if len(text) > MAX_FILE_BYTES:
            raise InputError(f"{path}: longer than {MAX_FILE_BYTES} bytes: is it a settings file?")
        content = _parsed(text)
    except OSError as why:
        raise InputError(f"{path}: cannot be read: {why.strerror}; name another file by --config") from why
    except (yaml.YAMLError, ValueError) as why:
        raise InputError(f"{path}: not YAML: {' '.join(str(why).split())}") from why
    content = {} if content is None else content
    if not isinstance(content, dict) or not all(isinstance(group, dict | None) for group in content.values()):
        raise InputError(f"{path}: must hold groups of settings, such as server: {{port: 9000}}")
    return _Layer({str(group): values or {} for group, values in content.items()}, f"{path}: {{group}}.{{field}}")


class _Loader(yaml.SafeLoader):
    """YAML in which off, no and yes are words: a mode may be called off."""


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, expression) for tag, expression in resolvers if tag != "tag:yaml.org,2002:bool" or first in ("t", "f")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _parsed(text: str | bytes) -> Any:
    return yaml.load(text, Loader=_Loader)


def _assigned(assignments: Sequence[str]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for each in assignments:
        name, equals, value = each.partition("=")
        group, dot, key = name.partition(".")
        if not (equals and dot and group and key):
            raise InputError(f"--set {each[:80]!r}: write it as group.field=value, such as server.port=9000")
        try:
            given.setdefault(group, {})[key] = _parsed(value)
        except yaml.YAMLError as why:
            raise InputError(f"--set {name}: {value[:80]!r} cannot be read") from why
    return given


def _refuse_unknown(layer: _Layer) -> None:
    for group, values in layer.given.items():
        _refuse_unknown_group(group, layer.name(group, "").rstrip("._").removesuffix(ENV_DELIMITER))
        if not isinstance(values, dict):
            continue  # a whole group as an object: pydantic looks at it
        known = group_fields(group)
        for name in values:
            if name not in known:
                choices = ", ".join(known)
                raise InputError(f"settings: {layer.name(group, name)}: no such setting; choose from {choices}")


def _refuse_unknown_group(group: str, called: str) -> None:
    if group not in Settings.model_fields:
        choices = ", ".join(Settings.model_fields)
        raise InputError(f"settings: {called}: no group is called {group!r}; choose from {choices}")


def _merged(layers: Sequence[_Layer]) -> tuple[dict[str, Any], dict[tuple[str, str], str]]:
    """Strongest source first; what none of them gives is left to the defaults."""
    settings: dict[str, Any] = {}
    sources = {(group, name): DEFAULT for group in Settings.model_fields for name in group_fields(group)}
    for layer in reversed(layers):
        for group, values in layer.given.items():
            settings.setdefault(group, {}).update(values)
            sources.update({(group, name): layer.name(group, name) for name in values})
    return settings, sources


def _validated(given: dict[str, Any], sources: Mapping[tuple[str, str], str]) -> Settings:
    try:
        return Settings(**given)
    except ValidationError as why:
        found = [(_place(error["loc"], sources), error["msg"].removeprefix("Value error, ")) for error in why.errors()]
        problems = "; ".join(f"{place}: {message}" for place, message in found[:5])
        raise InputError(f"settings: {problems}") from why


def _place(location: tuple[int | str, ...], sources: Mapping[tuple[str, str], str]) -> str:
    group, name, *rest = (*map(str, location), "", "")
    if not name:
        return group  # its settings do not fit together
    source = sources.get((group, name), DEFAULT)
    return ".".join([variable((group, name)) if source == DEFAULT else source, *filter(None, rest)])
