"""One realistic example of every event type, for the catalogue and for subscribers' tests.

They are about one job, `ml/llama-finetune`: a parameter server and two workers, one of which is OOM-killed and restarted.
"""

from __future__ import annotations

from typing import Final

from engine.events import actions, attempts, billing, budgets, decisions, ids, inputs, jobs, outcomes, preemptions, scheduling
from engine.events.envelope import Event
from engine.events.times import SECOND, parse_time
from engine.events.topics import level
from engine.events.vocabulary import INPUT_TOPICS, Data
from statemachines.spec import DependsOn, JobSpec, Policy, Requests, TaskSpec

_START: Final = parse_time("2026-03-02T09:00:00Z")
_CLUSTER: Final = "prod-1"
_POD: Final = "9a4e1c52-6f0b-4d0a-8f6e-2b7f5a3c1d90"
_POD_NAME: Final = "llama-finetune-worker-1"
_JOB: Final = ids.submitted_job_id(_CLUSTER, "ml", "llama-finetune", "submit-llama-finetune-1")
_NOTICE: Final = f"{_CLUSTER}/12"
_VICTIM: Final = ids.submitted_job_id(_CLUSTER, "ml", "bert-sweep", "submit-bert-sweep-1")
_WORKER: Final = Requests(cpu_milli=16_000, memory_bytes=128 * 2**30, gpu=8)
_SERVER: Final = Requests(cpu_milli=8_000, memory_bytes=32 * 2**30)

_TEMPLATE: Final = {
    "spec": {
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "main",
                "image": "registry.example/llama:1.4",
                "resources": {"requests": {"cpu": "16", "memory": "128Gi", "nvidia.com/gpu": "8"}},
            }
        ],
    }
}
_MANIFEST: Final = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "llama-finetune", "namespace": "ml"},
    "spec": {"minAvailable": 2, "tasks": [{"name": "worker", "replicas": 2, "template": _TEMPLATE}]},
}
_SPEC: Final = JobSpec(
    tasks=(
        TaskSpec("ps", requests=_SERVER),
        TaskSpec(
            "worker",
            replicas=2,
            policies=(Policy("RestartPod", events=("PodFailed",)),),
            depends_on=DependsOn(("ps",)),
            requests=_WORKER,
        ),
    ),
    min_available=3,
    queue="research",
)
_OBSERVED: Final = inputs.PodObserved(
    uid=_POD,
    job=_JOB,
    name=_POD_NAME,
    phase="Failed",
    created=_START + 4 * SECOND,
    namespace="ml",
    version="81734",
    kind="VCJob",
    owner="llama-finetune",
    managed=True,
    task="worker",
    index=1,
    attempt=1,
    reason="OomKilled",
    exit_code=137,
    first_exit_code=137,
    node="gpu-07",
    requests=_WORKER,
    bound=_START + 5 * SECOND,
    running=_START + 31 * SECOND,
    ended=_START + 1_831 * SECOND,
    proof=_START + 1_831 * SECOND,
    queue="research",
)
_KEPT: Final = {
    "specversion": "1.0",
    "id": ids.observation_id(_POD, "81734", deleted=False),
    "source": f"kubernetes/{_CLUSTER}",
    "type": "lahar.pod.observed.v1",
    "subject": _JOB,
    "data": {"uid": _POD, "job": _JOB, "name": _POD_NAME, "phase": "Running", "created": _START + 4 * SECOND},
}
_SCHEDULING: Final = frozenset({"decisions", "scheduling", "preemptions"})
_TIMER: Final = ids.output_id("lifecycle", "submit-llama-finetune-1", 3)
_EFFECT: Final = ids.output_id("lifecycle", "submit-llama-finetune-1", 5)

_DATA: Final[tuple[Data, ...]] = (
    _OBSERVED,
    inputs.PodDeleted(last=_OBSERVED),
    inputs.JobSubmitted(manifest=_MANIFEST),
    inputs.JobUpdated(manifest=_MANIFEST),
    inputs.JobDeleted(version="81002"),
    inputs.JobObserved("nightly-etl", "Job", namespace="data", version="70411", phase="Completed", tasks={"main": 4}),
    inputs.CommandIssued("AbortJob", by="ada", reason="wrong dataset"),
    inputs.CustomEventRaised("LossDiverged", data={"loss": "nan", "step": 1200}, task="worker", by="trainer"),
    inputs.EffectReported(_EFFECT, "done"),
    inputs.RowUnreadable("philly-status", line=412, reason="run_time is negative: -17"),
    inputs.NodeObserved("gpu-07", version="9120", cpu_milli=96_000, memory_bytes=2**40, gpu=8, pods=110, gpu_model="A100-80GB"),
    inputs.NodeDeleted("gpu-07", version="9544"),
    inputs.ObjectApplied("Queue", "research", spec={"weight": 2}),
    inputs.ObjectDeleted("Queue", "research"),
    jobs.JobOpened("VCJob", "llama-finetune", managed=True, spec=_SPEC, namespace="ml", tenant="ml", user="ada"),
    jobs.JobRevised(labels={"lahar/tenant": "ml"}),
    jobs.JobPhaseChanged("Running", "Pending", reason="minAvailable reached"),
    jobs.JobNoticeAnswered(_NOTICE, "acknowledged", by="ada", reason="checkpoint 1200 is written"),
    jobs.TaskPhaseChanged("worker", "Running", "Pending"),
    attempts.AttemptStarted("worker", 1, 1, uid=_POD, pod=_POD_NAME, requests=_WORKER),
    attempts.AttemptBound("worker", 1, 1, node="gpu-07", gpu_model="A100-80GB"),
    attempts.AttemptRunning("worker", 1, 1, ready=True),
    attempts.AttemptTerminating("worker", 1, 1, reason="EvictedByApi"),
    attempts.AttemptEnded(
        "worker",
        1,
        1,
        phase="Failed",
        reason="OomKilled",
        exit_code=137,
        node="gpu-07",
        started=_START + 31 * SECOND,
        ran=1_800 * SECOND,
        requests=_WORKER,
    ),
    attempts.AttemptChanged("worker", 1, 1, disruption="PreemptionByScheduler"),
    attempts.AttemptChanged("worker", 1, 1, started=_START + 31 * SECOND),
    attempts.AttemptChanged("worker", 1, 1, owner="Job/adopter"),
    attempts.AttemptMoved("worker", 1, 1, uid=_POD, pod=_POD_NAME, to=_VICTIM, owner="SparkApplication/agg"),
    attempts.AttemptLateFact("worker", 1, 1, phase="Failed", reason="OomKilled", exit_code=137, ended=_START + 1_831 * SECOND),
    attempts.AttemptObjectChanged("worker", 1, 1, object="gone"),
    actions.EventRaised("PodFailed", task="worker", index=1, attempt=1, exit_code=137),
    actions.ActionTaken("RestartPod", policy="spec.tasks[1].policies[0]", event="PodFailed", task="worker", index=1),
    actions.ActionDeferred("AbortJob", by="ada", reason="wrong dataset"),
    actions.TimerSet("active_deadline", due=_START + 86_400 * SECOND),
    actions.TimerCancelled(_TIMER, why="the job is finished"),
    actions.DelaysCancelled(["RestartTask"], "task", task="worker", why="RestartTask was carried out"),
    actions.TimerFired(_TIMER),
    actions.EffectRequested("create_pod", pod=_POD_NAME, task="worker", index=1, attempt=2),
    actions.EffectSettled(_EFFECT, "done"),
    outcomes.JobRejected("llama-finetune", faults=[outcomes.Fault("spec.tasks[1].replicas", "must not be negative: -2")]),
    outcomes.CommandRefused("ResumeJob", reason="the job is Running; only an aborted job can be resumed", by="ada"),
    jobs.JobObjectDeleted(version="81002"),
    jobs.JobForgotten(finished=_START + 7_200 * SECOND),
    outcomes.JobParked("worker/1: attempt 3 follows attempt 1"),
    outcomes.JobUnparked(inputs=12, by="ada"),
    outcomes.InputParked(_KEPT),
    outcomes.InputOrphaned(_KEPT),
    outcomes.InputReleased(ids.observation_id(_POD, "81734", deleted=False), kept="waiting", outcome="applied"),
    outcomes.Anomaly(
        "a second pod claims a slot whose attempt is alive", level="replica", task="worker", index=1, pod="llama-copy"
    ),
    outcomes.RowRejected("philly-status", line=412, reason="run_time is negative: -17"),
    outcomes.DeadLettered(
        "not JSON: expected value at line 1 column 1", "pods", partition=0, offset=5121, key=_JOB, content="PGh0bWw+"
    ),
    outcomes.LetterDiscarded(by="ada", reason="a probe of the ingress", principal="ada"),
    outcomes.Accounted(now=_START + 1_860 * SECOND, duplicate=3, unchanged=41),
    decisions.DecidedEnqueued(3),
    decisions.DecidedBound(9, [decisions.Placement("worker", 0, 1, "gpu-06"), decisions.Placement("worker", 1, 1, "gpu-07")]),
    decisions.DecidedPipelined(9, [decisions.Placement("worker", 1, 1, "gpu-07")]),
    decisions.DecidedEvicted(31, "Preempted", [decisions.AttemptKey("worker", 1, 1)]),
    decisions.DecidedUnschedulable(9, "NotEnoughResources", "2/3 nodes have not enough nvidia.com/gpu"),
    decisions.DecidedNoticed(31, _NOTICE, "victim", _START + 2_160 * SECOND),
    decisions.DecidedNoticeEnded(33, _NOTICE, "withdrawn"),
    decisions.DecisionAccepted("bound-llama-finetune-1", "bound", [decisions.Placement("worker", 1, 1, "gpu-07")]),
    decisions.DecisionRefused("bound-llama-finetune-2", "bound", "NodeGone", "cluster prod-1 has no node gpu-07"),
    scheduling.RoundEnded(enqueued=1, bound=2, pending={"research": 3}, oldest={"research": _START}),
    scheduling.GroupPhaseChanged("Inqueue", "Pending"),
    scheduling.JobExplained(
        "InsufficientResource",
        "allocate",
        about="worker",
        missing={"nvidia.com/gpu": 3000},
        nodes={"InsufficientResource/nvidia.com/gpu": 5, "Taint": 2},
        queue="research",
        place=2,
        waiting=3,
        ahead=["0b0f0d2c-7f0b-4f57-9d0e-7f1a1c4f2b11"],
    ),
    scheduling.DecisionTimedOut("bound-llama-finetune-1", "bound"),
    preemptions.NoticeOpened(
        _JOB, [_VICTIM], "research", "1 job of lower priority runs in the queue", _START + 2_160 * SECOND, 300 * SECOND
    ),
    preemptions.NoticeAcknowledged(_VICTIM),
    preemptions.NoticeNarrowed(_VICTIM, "VictimLeft"),
    preemptions.NoticeWithdrawn("PreemptorPlaced", [_VICTIM]),
    preemptions.NoticeExecuted("DeadlinePassed", [_VICTIM], _START + 2_220 * SECOND),
    preemptions.ReservationEnded("bound"),
    billing.UsageRecorded(
        "worker",
        1,
        1,
        _POD,
        record="usage",
        start=_START + 540 * SECOND,
        end=_START + 1_470 * SECOND,
        length=930 * SECOND,
        kind="running",
        begun=ids.output_id("lifecycle", "began", 0),
        period="2026-03",
        ended=ids.output_id("lifecycle", "ended", 0),
        cpu_milli=_WORKER.cpu_milli,
        memory_bytes=_WORKER.memory_bytes,
        gpu=_WORKER.gpu,
        charges=[
            billing.Charge("gpu_seconds", "8", "0.0005", "7440", "3.72"),
            billing.Charge("cpu_seconds", "16", "0.00001", "14880", "0.1488"),
            billing.Charge("memory_byte_seconds", "137438953472", None, "127818226728960"),
        ],
        currency="EUR",
        price_version="2026",
        factors={"queue=research": "0.5"},
        worth="failed",
        tenant="ml",
        queue="research",
        user="ada",
        namespace="ml",
        job_kind="VCJob",
        job_name="llama-finetune",
        labels={"lahar/tenant": "ml"},
        node="gpu-07",
        gpu_model="A100-80GB",
    ),
    billing.UsageWithdrawn(
        "worker",
        1,
        1,
        _POD,
        record="usage",
        start=_START + 540 * SECOND,
        end=_START + 1_470 * SECOND,
        period="2026-03",
        revision=1,
        tenant="ml",
        job_kind="VCJob",
        amount="3.8688",
    ),
    billing.UsageFailed("worker", 1, 1, _POD, error="KeyError: '2025'"),
    billing.UsageReviewed(64),
    billing.PeriodClosed("2026-02", "finance"),
    budgets.BudgetCrossed(
        "ml", "2026-03", 80, amount="803.8688", budget="1000", currency="EUR", usage=ids.output_id("billing", _JOB, 7), job=_JOB
    ),
)

EXAMPLES: Final[dict[str, Data]] = {data.TYPE: data for data in _DATA}
"""Type → data, in the order of the vocabulary."""


def example(name: str) -> Event[Data]:
    """Return the example of an event type, in its envelope.

    Raises:
        KeyError: the vocabulary has no such type.
    """
    data = EXAMPLES[name]
    position = list(EXAMPLES).index(name)
    time = _START + position * 45 * SECOND
    subject = {"cluster": _CLUSTER, "shard": "lifecycle/0", "tenant": "ml", "notice": _NOTICE}.get(level(type(data)), _JOB)
    if data.TOPIC in INPUT_TOPICS:
        return Event(_input_id(data), _source(data), name, subject, time, time + SECOND, 0, subject, "", _CLUSTER, data)
    cause = ids.observation_id(_POD, "81734", deleted=False)
    # A shard's account has no job; an unreadable record has a key, but neither id nor cluster.
    of_shard, stage = level(type(data)) == "shard", "scheduling" if data.TOPIC in _SCHEDULING else "lifecycle"
    of_no_job = level(type(data)) in {"shard", "tenant", "cluster"}
    correlation = data.key if isinstance(data, outcomes.DeadLettered) else "" if of_no_job else subject
    return Event(
        ids.output_id(stage, cause, position),
        f"lahar/{stage}",
        name,
        subject,
        time,
        time + SECOND,
        position + 1,
        correlation,
        "" if of_shard else cause,
        "" if of_shard else _CLUSTER,
        data,
    )


def _input_id(data: Data) -> str:
    match data:
        case inputs.PodObserved(uid=uid, version=str(version)):
            return ids.observation_id(uid, version, deleted=False)
        case inputs.PodDeleted(last=inputs.PodObserved(uid=uid, version=str(version))):
            return ids.observation_id(uid, version, deleted=True)
        case inputs.RowUnreadable(format=source_format, line=line):
            return ids.import_id(_CLUSTER, source_format, str(line), "row")
        case inputs.NodeObserved(name=name, version=str(version)) | inputs.NodeDeleted(name=name, version=str(version)):
            return ids.observation_id(name, version, deleted=isinstance(data, inputs.NodeDeleted))
        case _:
            return f"{data.TYPE.split('.')[1]}-llama-finetune-1"


def _source(data: Data) -> str:
    match data:
        case inputs.JobSubmitted() | inputs.JobUpdated() | inputs.CommandIssued() | inputs.CustomEventRaised():
            return "command/ada"
        case inputs.RowUnreadable(format=source_format):
            return f"import/{source_format}/{_CLUSTER}"
        case inputs.EffectReported():
            return "lahar/effects"
        case _:
            return f"kubernetes/{_CLUSTER}"
