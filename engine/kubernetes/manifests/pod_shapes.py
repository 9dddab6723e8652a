"""Shapes of a pod template (Kubernetes: `core/v1` PodTemplateSpec)."""

from __future__ import annotations

from typing import Any

from engine.kubernetes.reading.shapes import Int32, Int64, Metadata, Shape, fields


class Resources(Shape):
    """`resources` of a container or of a whole pod."""

    PASSED = frozenset({"claims"})

    requests: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None


class Port(Shape):
    """One port of a container."""

    PASSED = frozenset({"hostIP"})

    name: str | None = None
    container_port: Int32 | None = None
    host_port: Int32 | None = None
    protocol: str | None = None


class EnvVar(Shape):
    """One environment variable."""

    PASSED = frozenset({"valueFrom"})

    name: str | None = None
    value: str | None = None


class VolumeMount(Shape):
    """Mount of a pod's volume in a container."""

    PASSED = frozenset({"mountPropagation", "readOnly", "recursiveReadOnly", "subPath", "subPathExpr"})

    name: str | None = None
    mount_path: str | None = None


class Container(Shape):
    """Container, init container or sidecar (an init container that always restarts)."""

    PASSED = fields(
        "envFrom lifecycle livenessProbe readinessProbe resizePolicy restartPolicyRules securityContext startupProbe stdin "
        "stdinOnce terminationMessagePath terminationMessagePolicy tty volumeDevices workingDir"
    )

    name: str | None = None
    image: str | None = None
    image_pull_policy: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[EnvVar] | None = None
    ports: list[Port] | None = None
    resources: Resources | None = None
    restart_policy: str | None = None
    volume_mounts: list[VolumeMount] | None = None


class Volume(Shape):
    """Volume of a pod: name and source."""

    PASSED = fields(
        "awsElasticBlockStore azureDisk azureFile cephfs cinder configMap csi downwardAPI emptyDir ephemeral fc flexVolume flocker "
        "gcePersistentDisk gitRepo glusterfs hostPath image iscsi nfs persistentVolumeClaim photonPersistentDisk portworxVolume "
        "projected quobyte rbd scaleIO secret storageos vsphereVolume"
    )

    name: str | None = None


class PodSpec(Shape):
    """`spec` of a pod template."""

    PASSED = fields(
        "affinity automountServiceAccountToken dnsConfig enableServiceLinks ephemeralContainers hostAliases hostIPC hostPID "
        "hostUsers hostname hostnameOverride imagePullSecrets nodeName nodeSelector os preemptionPolicy priority readinessGates "
        "resourceClaims runtimeClassName schedulingGates securityContext serviceAccount serviceAccountName setHostnameAsFQDN "
        "shareProcessNamespace subdomain tolerations topologySpreadConstraints workloadRef resources"
    )

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    volumes: list[Volume] | None = None
    restart_policy: str | None = None
    dns_policy: str | None = None
    host_network: bool | None = None
    overhead: dict[str, Any] | None = None
    scheduler_name: str | None = None
    priority_class_name: str | None = None
    active_deadline_seconds: Int64 | None = None
    termination_grace_period_seconds: Int64 | None = None


class PodTemplate(Shape):
    """`template` of a task or a Job."""

    metadata: Metadata | None = None
    spec: PodSpec | None = None
