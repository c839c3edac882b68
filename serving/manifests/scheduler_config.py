"""The configuration of kube-scheduler that makes it ask Pilotfish.

``kubescheduler.config.k8s.io/v1`` has had every field used here since Kubernetes 1.25, and 1.36 still has them: one
text serves all versions between.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent.errors import InputError
from serving.manifests.text import Manifest, commented
from serving.settings import Settings

API_VERSION = "kubescheduler.config.k8s.io/v1"
OLDEST, NEWEST = (1, 29), (1, 36)

STRATEGIES = ("LeastAllocated", "MostAllocated")

ABOUT = """
Pilotfish beside kube-scheduler {oldest} to {newest}. Written by: pilotfish scheduler-config
kube-scheduler --config=THIS_FILE asks the sidecar for every pod, and schedules without it when it is gone.
"""

ABOUT_PERCENTAGE = """
kube-scheduler looks for feasible nodes only until it has enough: all of them up to 100 nodes, then a share that falls
from 50 % to 5 %. Pilotfish ranks what it is offered; percentageOfNodesToScore: 100 offers all, at the price of time.
"""

ABOUT_PROFILES = """
The in-tree scores (0 to 100 each, times their weights, 1200 at most by default) stay, and ours is added to them.
To let Pilotfish alone choose among the feasible nodes, switch them off (pilotfish scheduler-config --only-pilotfish):
  plugins:
    score:
      disabled:
      - name: "*"
"""

ABOUT_EXTENDER = """
Our score is 0 to 10; kube-scheduler adds score x weight x 10, so weight {weight} gives the best node {most} points.
nodeCacheCapable: names are sent, not whole nodes. ignorable: a pod is scheduled without us rather than not at all.
httpTimeout is far above our own deadline of {deadline_ms:g} ms: it is for a sidecar that hangs.
Extenders see the pods of every profile; Pilotfish judges those of {names} alone.
"""


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """What kube-scheduler is told that is no setting of the sidecar."""

    kubernetes: str = "1.35"
    weight: int = 10
    http_timeout_s: float = 1.0
    rank_only: bool = False
    only_pilotfish: bool = False
    strategy: str | None = None
    volume_bind_timeout_s: int | None = None
    percentage_of_nodes: int | None = None
    url: str | None = None  # where kube-scheduler finds the sidecar, if not where the settings say that it listens
    ca_file: str | None = None
    client_certificate_file: str | None = None
    client_key_file: str | None = None
    kubeconfig: str | None = None
    leader_elect: bool = True

    def __post_init__(self) -> None:
        check_version(self.kubernetes)
        if self.strategy not in (None, *STRATEGIES):
            raise InputError(f"--strategy {self.strategy}: choose from {', '.join(STRATEGIES)}")
        _check_range("--weight", self.weight, 1, 1000)
        _check_range("--percentage-of-nodes", self.percentage_of_nodes, 1, 100)
        _check_range("--volume-bind-timeout-s", self.volume_bind_timeout_s, 1, 3600)


def check_version(text: str) -> None:
    try:
        major, minor = map(int, text.removeprefix("v").split(".")[:2])
    except ValueError:
        raise InputError(f"--kubernetes {text}: write it as 1.35") from None
    if not OLDEST <= (major, minor) <= NEWEST:
        raise InputError(f"--kubernetes {text}: choose from {_dotted(OLDEST)} to {_dotted(NEWEST)}")


def scheduler_config(settings: Settings, options: SchedulerOptions) -> Manifest:
    """The whole configuration as one object."""
    return {key: value for _, part in _parts(settings, options) for key, value in part.items()}


def scheduler_config_text(settings: Settings, options: SchedulerOptions) -> str:
    return "\n".join(commented(comment, part) for comment, part in _parts(settings, options))


def _parts(settings: Settings, options: SchedulerOptions) -> list[tuple[str, Manifest]]:
    names = scheduler_names(settings)
    about_extender = ABOUT_EXTENDER.format(
        weight=options.weight,
        most=options.weight * 100,
        deadline_ms=settings.ladder.deadline_ms,
        names=" and ".join(names),
    )
    return [
        (ABOUT.format(oldest=_dotted(OLDEST), newest=_dotted(NEWEST)), _head(options)),
        (ABOUT_PERCENTAGE, {"percentageOfNodesToScore": options.percentage_of_nodes or 0}),
        (ABOUT_PROFILES, {"profiles": [_profile(name, options) for name in names]}),
        (about_extender, {"extenders": [extender(settings, options)]}),
    ]


def scheduler_names(settings: Settings) -> tuple[str, ...]:
    return tuple(name.strip() for name in settings.extender.scheduler_names.split(",") if name.strip())


def _head(options: SchedulerOptions) -> Manifest:
    head: Manifest = {"apiVersion": API_VERSION, "kind": "KubeSchedulerConfiguration"}
    head["leaderElection"] = {"leaderElect": options.leader_elect}
    if options.kubeconfig:
        head["clientConnection"] = {"kubeconfig": options.kubeconfig}
    return head


def _profile(name: str, options: SchedulerOptions) -> Manifest:
    profile: Manifest = {"schedulerName": name}
    if options.only_pilotfish:
        profile["plugins"] = {"score": {"disabled": [{"name": "*"}]}}
    elif options.strategy:
        profile["plugins"] = {"score": {"enabled": [{"name": "NodeResourcesFit", "weight": 1}]}}
    arguments = [*_fit_arguments(options), *_volume_arguments(options)]
    if arguments:
        profile["pluginConfig"] = arguments
    return profile


def _fit_arguments(options: SchedulerOptions) -> list[Manifest]:
    if options.strategy is None:
        return []
    resources = [{"name": name, "weight": 1} for name in ("cpu", "memory")]
    return [_plugin("NodeResourcesFit", {"scoringStrategy": {"type": options.strategy, "resources": resources}})]


def _volume_arguments(options: SchedulerOptions) -> list[Manifest]:
    if options.volume_bind_timeout_s is None:
        return []
    return [_plugin("VolumeBinding", {"bindTimeoutSeconds": options.volume_bind_timeout_s})]


def _plugin(name: str, arguments: Manifest) -> Manifest:
    return {"name": name, "args": {"apiVersion": API_VERSION, "kind": f"{name}Args", **arguments}}


def extender(settings: Settings, options: SchedulerOptions) -> Manifest:
    """How kube-scheduler calls the sidecar."""
    timeout_s = options.http_timeout_s
    if timeout_s * 1000 <= settings.ladder.deadline_ms:
        raise InputError(
            f"--http-timeout-s {timeout_s:g} must be above the deadline, {settings.ladder.deadline_ms:g} ms"
        )
    verbs = {} if options.rank_only else {"filterVerb": "filter"}
    verbs |= {"prioritizeVerb": "prioritize"}
    verbs |= {"bindVerb": "bind"} if settings.extender.bind else {}
    verbs |= {"preemptVerb": "preempt"} if settings.extender.preempt else {}
    return {
        "urlPrefix": f"{options.url or _address(settings)}/extender",
        **verbs,
        "weight": options.weight,
        "nodeCacheCapable": True,
        "ignorable": True,
        "httpTimeout": f"{timeout_s:g}s",
        **_tls(settings, options),
    }


def _address(settings: Settings) -> str:
    scheme = "https" if settings.security.certificate_file else "http"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.server.host, settings.server.host)
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{settings.server.port}"


def _tls(settings: Settings, options: SchedulerOptions) -> Manifest:
    security = settings.security
    if security.token_file and not security.client_ca_file:
        raise InputError("kube-scheduler cannot send a token: set PILOTFISH_SECURITY__CLIENT_CA_FILE, too")
    if not security.certificate_file:
        return {}
    if not options.ca_file:
        raise InputError(
            "--ca-file: kube-scheduler needs the CA that signed the sidecar's certificate, else it trusts all"
        )
    certificate = {"certFile": options.client_certificate_file, "keyFile": options.client_key_file}
    given = {key: file for key, file in certificate.items() if file}
    if security.client_ca_file and len(given) < len(certificate):
        raise InputError("--client-certificate-file and --client-key-file: the sidecar wants a client certificate")
    return {"enableHTTPS": True, "tlsConfig": {"caFile": options.ca_file, **given}}


def _check_range(name: str, value: int | None, least: int, most: int) -> None:
    if value is not None and not least <= value <= most:
        raise InputError(f"{name} {value}: choose from {least} to {most}")


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
