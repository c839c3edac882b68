"""``pilotfish scheduler-config`` and ``pilotfish rbac``: they print, and change nothing anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from serving.configuration import Configuration

app = typer.Typer()

Config = Annotated[Path | None, typer.Option(help="The YAML file of settings that the sidecar gets.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="group.field=value, for any setting; may be given often.")]
Namespace = Annotated[str, typer.Option(help="The namespace of the service account.")]


@app.command("scheduler-config")
def scheduler_config(
    kubernetes: Annotated[str, typer.Option(help="The version of kube-scheduler, 1.29 to 1.36.")] = "1.35",
    sidecar: Annotated[bool, typer.Option("--sidecar", help="Print a Deployment of both instead.")] = False,
    static_pod: Annotated[bool, typer.Option("--static-pod", help="Print a static pod of both instead.")] = False,
    weight: Annotated[int, typer.Option(help="What our score counts: score x weight x 10 points.")] = 10,
    http_timeout_s: Annotated[float, typer.Option(help="How long kube-scheduler waits for an answer.")] = 1.0,
    rank_only: Annotated[bool, typer.Option("--rank-only", help="Ask for scores alone, one call a pod.")] = False,
    only_pilotfish: Annotated[bool, typer.Option("--only-pilotfish", help="Switch the in-tree scores off.")] = False,
    strategy: Annotated[str | None, typer.Option(help="LeastAllocated or MostAllocated, of NodeResourcesFit.")] = None,
    volume_bind_timeout_s: Annotated[int | None, typer.Option(help="bindTimeoutSeconds of VolumeBinding.")] = None,
    percentage_of_nodes: Annotated[int | None, typer.Option(help="percentageOfNodesToScore, 1 to 100.")] = None,
    url: Annotated[str | None, typer.Option(help="The sidecar, if not where the settings say it listens.")] = None,
    ca_file: Annotated[str | None, typer.Option(help="With TLS: the CA, as kube-scheduler sees the file.")] = None,
    client_certificate_file: Annotated[str | None, typer.Option(help="kube-scheduler's own certificate.")] = None,
    client_key_file: Annotated[str | None, typer.Option(help="The key of that certificate.")] = None,
    kubeconfig: Annotated[str | None, typer.Option(help="kube-scheduler's own kubeconfig.")] = None,
    image: Annotated[str | None, typer.Option(help="The image of the sidecar.")] = None,
    namespace: Namespace = "kube-system",
    config: Config = None,
    assignments: Set = None,
) -> None:
    """Print the configuration that makes kube-scheduler ask Pilotfish, or a pod with both."""
    from serving.manifests.container import image_name
    from serving.manifests.deployment import deployment_text
    from serving.manifests.scheduler_config import SchedulerOptions, scheduler_config_text
    from serving.manifests.static_pod import static_pod_text

    options = SchedulerOptions(
        kubernetes=kubernetes,
        weight=weight,
        http_timeout_s=http_timeout_s,
        rank_only=rank_only,
        only_pilotfish=only_pilotfish,
        strategy=strategy,
        volume_bind_timeout_s=volume_bind_timeout_s,
        percentage_of_nodes=percentage_of_nodes,
        url=url,
        ca_file=ca_file,
        client_certificate_file=client_certificate_file,
        client_key_file=client_key_file,
        kubeconfig=kubeconfig,
    )
    found, image = _configuration(config, assignments), image or image_name()
    if sidecar:
        text = deployment_text(found, options, image, namespace)
    elif static_pod:
        text = static_pod_text(found, options, image)
    else:
        text = scheduler_config_text(found.settings, options)
    typer.echo(text, nl=False)


@app.command()
def rbac(
    training: Annotated[bool, typer.Option("--training", help="For `pilotfish train --live`, which binds.")] = False,
    namespace: Namespace = "kube-system",
    config: Config = None,
    assignments: Set = None,
) -> None:
    """Print the least rights that the sidecar needs: a service account, a role and its binding."""
    from serving.manifests.roles import rbac_text, training_rbac_text

    settings = _configuration(config, assignments).settings
    typer.echo((training_rbac_text if training else rbac_text)(settings, namespace=namespace), nl=False)


def _configuration(config: Path | None, assignments: list[str] | None) -> Configuration:
    from serving.configuration import ConfigurationSource

    return ConfigurationSource(config, {}, assignments or ()).read()
