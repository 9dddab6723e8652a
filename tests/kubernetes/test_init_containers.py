"""Init containers: they decide a pod that failed in them, and what a pod that has not started waits for names them."""

from __future__ import annotations

from typing import Any

import pytest
from pod_builders import at, pod, running, status, terminated, waiting

from engine.kubernetes.observation.pods import delete_pod, observe_pod

NOT_STARTED = waiting("PodInitializing", name="main")
EARLY, LATE = "2026-03-01T10:01:00Z", "2026-03-01T10:02:00Z"


def initializing(*inits: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return pod("Pending", NOT_STARTED, initContainerStatuses=list(inits), **fields)


def failed(*inits: dict[str, Any], main: dict[str, Any] = NOT_STARTED, **fields: Any) -> dict[str, Any]:
    return pod("Failed", main, initContainerStatuses=list(inits), **fields)


@pytest.mark.parametrize(
    ("init", "reason", "exit_code"),
    [
        (terminated(3, name="unpack"), "AppFailed", 3),
        (terminated(137, "OOMKilled", name="unpack"), "OomKilled", 137),
        (terminated(0, "OOMKilled", name="unpack"), "OomKilled", None),
        (terminated(128, "StartError", name="unpack"), "StartError", 128),
        (terminated(139, name="unpack"), "KilledBySignal", 139),
    ],
)
def test_a_failed_init_container_gives_the_pods_reason_exit_code_and_end(init, reason, exit_code) -> None:
    seen = observe_pod(failed(terminated(0, name="first", finished=EARLY), init))
    assert (seen.phase, seen.reason, seen.exit_code) == ("Failed", reason, exit_code)
    assert (seen.running, seen.ended) == (None, at(5, 7))
    assert "unpack: ended with exit" in seen.message


def test_regular_containers_decide_where_one_has_ended() -> None:
    seen = observe_pod(failed(terminated(9, name="unpack"), main=terminated(3, name="main")))
    assert seen.exit_code == 3


def test_a_sidecar_decides_no_pod_that_failed_in_an_init_container() -> None:
    spec = {"initContainers": [{"name": "proxy", "restartPolicy": "Always"}, {"name": "unpack"}]}
    seen = observe_pod(failed(terminated(137, "OOMKilled", name="proxy"), terminated(4, name="unpack"), spec=spec))
    assert (seen.reason, seen.exit_code) == ("AppFailed", 4)


def test_a_pod_deleted_during_init_did_not_end_with_an_init_container() -> None:
    last = delete_pod(initializing(terminated(1, name="unpack", finished=EARLY))).last
    assert (last.reason, last.ended) == ("DeletedByApi", None)


@pytest.mark.parametrize(("code", "reason"), [(0, "OOMKilled"), (1, "Error"), (137, "OOMKilled")])
def test_a_pod_that_is_stuck_names_the_init_container_its_end_and_when(code, reason) -> None:
    first = terminated(0, name="first", started=EARLY, finished=EARLY)
    seen = observe_pod(initializing(first, terminated(code, reason, LATE, EARLY, name="unpack")))
    assert (seen.phase, seen.reason) == ("Bound", "Starting")
    assert seen.message == (
        f"init container unpack ended with exit {code} ({reason}) at 2026-03-01 10:02:00Z, and no container has started since"
    )


def test_a_pod_in_which_another_container_has_started_since_goes_on() -> None:
    seen = observe_pod(initializing(terminated(1, name="a", started=EARLY, finished=EARLY), running(LATE, name="b")))
    assert seen.message == (
        "init container a ended with exit 1 (Error) at 2026-03-01 10:01:00Z; init container b runs since 2026-03-01 10:02:00Z"
    )


def test_a_pod_waits_for_the_running_init_container_not_for_a_sidecar() -> None:
    spec = {"initContainers": [{"name": "proxy", "restartPolicy": "Always"}, {"name": "unpack"}]}
    again = running(LATE, name="unpack", restartCount=1, lastState=terminated(2, name="unpack")["state"])
    seen = observe_pod(initializing(running(EARLY, name="proxy"), again, spec=spec))
    assert seen.reason == "Initializing"
    assert seen.message == "init container unpack runs since 2026-03-01 10:02:00Z; its last run ended with exit 2 (Error)"


def test_a_sidecar_that_loops_is_named_with_its_last_end() -> None:
    last = terminated(1, name="proxy")["state"]
    proxy = status({"waiting": {"reason": "CrashLoopBackOff"}}, name="proxy", lastState=last)
    spec = {"initContainers": [{"name": "proxy", "restartPolicy": "Always"}]}
    seen = observe_pod(initializing(proxy, spec=spec))
    assert (seen.reason, seen.message) == ("CrashLoopBackOff", "proxy: its last run ended with exit 1 (Error)")


def test_a_pod_between_start_steps_shows_what_it_waits_for_and_since_when() -> None:
    done, after = terminated(0, name="fetch", finished=EARLY), terminated(0, name="unpack", finished=LATE)
    next_one = waiting("PodInitializing", name="unpack")
    sidecar = running(name="proxy") | {"started": False}
    inits = [{"name": "proxy", "restartPolicy": "Always"}, {"name": "fetch"}]
    spec = {"containers": [{"name": "main"}], "initContainers": inits}
    for pod_, said in (
        (
            initializing(done, next_one),
            "waits for init container unpack since 2026-03-01 10:01:00Z, when init container fetch ended",
        ),
        (initializing(done, after), "waits for its containers since 2026-03-01 10:02:00Z, when init container unpack ended"),
        (
            initializing(sidecar, waiting("PodInitializing", name="fetch"), spec=spec),
            "waits until sidecar proxy has started, which runs since 2026-03-01 10:00:07Z",
        ),
        (initializing({**sidecar, "started": True}, waiting("PodInitializing", name="fetch"), spec=spec), ""),
        (initializing(waiting("PodInitializing", name="fetch")), ""),
    ):
        seen = observe_pod(pod_)
        assert (seen.phase, seen.message) == ("Bound", said)
