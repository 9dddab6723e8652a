"""Faults of manifests and objects begin with the line and column of the field that they are about."""

import pytest

JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: train
spec:
  colour: red
  tasks:
    - name: worker
      replicas: -2
      template:
        spec:
          containers:
            - {name: c, image: i}
"""
QUEUE = """\
kind: Queue
metadata: {name: q}
spec:
  weight: -3
"""


@pytest.mark.parametrize("command", [("apply",), ("job", "submit")])
def test_a_rejected_job(lahar, folder, command):
    (folder / "job.yaml").write_text(f"# ours\n{JOB}")
    told = lahar(*command, "job.yaml", code=2).err
    assert "lahar: job.yaml: line 10, column 7: spec.tasks[0].replicas: must be at least 0\n" in told
    assert "warning: job.yaml: line 7, column 3: spec.colour: unknown field\n" in told


def test_an_object_behind_others(lahar, folder):
    (folder / "two.yaml").write_text(f"{JOB.replace('-2', '2')}---\n{QUEUE}")
    assert "two.yaml: line 18, column 3: Queue: spec.weight: " in lahar("apply", "two.yaml", code=2).err


def test_an_update_that_is_refused(lahar, folder):
    file = folder / "job.yaml"
    file.write_text(JOB.replace("-2", "2"))
    lahar("apply", file)
    file.write_text(file.read_text().replace("image: i", "image: other"))
    told = lahar("apply", "job.yaml", code=2).err
    assert "job.yaml: line 13, column 25: spec.tasks[0].template.spec.containers[0].image: cannot change" in told


def test_a_strict_warning(lahar, folder):
    (folder / "job.yaml").write_text(JOB.replace("-2", "2"))
    assert "job.yaml: line 6, column 3: spec.colour: unknown field" in lahar("apply", "job.yaml", "--strict", code=2).err


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("q.yaml", f"{QUEUE}---\n# ours\n{QUEUE}  weight: 2\n", "q.yaml: line 11: the key 'weight' stands there twice;"),
        ("q.yaml", f"{QUEUE}---\n{QUEUE}  a: [1\n", "q.yaml: line 10: not YAML: did not find expected ',' or ']';"),
        ("q.yaml", f"{QUEUE}---\n{QUEUE}  a: .nan\n", "q.yaml: line 10: not YAML: a number that is not finite, .nan;"),
        (
            "q.json",
            '{"kind": "Queue",\n\n "spec": {"weight": 1,,}}\n',
            "q.json: line 3: not JSON: key must be a string (column 23);",
        ),
        ("q.json", '{"kind": "Queue",\n "spec": {},\n "spec": {}}\n', "q.json: line 3: the key 'spec' stands there twice;"),
    ],
)
def test_what_cannot_be_read(lahar, folder, name, text, told):
    (folder / name).write_text(text)
    assert told in lahar("apply", name, code=2).err


def test_a_field_whose_name_is_no_identifier(lahar, folder):
    (folder / "job.yaml").write_text(JOB.replace("-2", "2") + "x-t: 3\n")
    assert "job.yaml: line 14, column 1: [x-t]: unknown field" in lahar("apply", "job.yaml").err
    (folder / "job.yaml").write_text(JOB.replace("name: train", "labels: {a: b, c/d: 3}"))
    assert "job.yaml: line 4, column 18: metadata.labels[c/d]: " in lahar("apply", "job.yaml", code=2).err


def test_one_object_in_place_of_a_list_and_an_item_of_a_list(lahar, folder):
    rule = "lahar:\n  raise:\n    raise: X\n    when:\n      phase: Faild\n"
    policies = "  policies:\n    - events: [PodFailed, PodEvictd]\n      action: RestartJob\n"
    (folder / "job.yaml").write_text(JOB.replace("-2", "2") + policies + rule)
    told = lahar("apply", "job.yaml", code=2).err
    assert "job.yaml: line 15, column 27: spec.policies[0].events[1]: invalid policy event PodEvictd" in told
    assert "job.yaml: line 21, column 7: lahar.raise[0].when.phase: must be a phase of a task" in told


def test_every_object_with_a_fault_is_named(lahar, folder):
    (folder / "q.yaml").write_text("---\n".join([QUEUE, QUEUE.replace("-3", "3"), QUEUE.replace("-3", "heavy")]))
    told = lahar("apply", "q.yaml", code=2).err
    assert "q.yaml: line 4, column 3: Queue: spec.weight: should be greater" in told
    assert "; q.yaml: line 14, column 3: Queue: spec.weight: should be a valid integer" in told
    (folder / "q.yaml").write_text("---\n".join([QUEUE] * 12))
    assert "; and 2 more" in lahar("apply", "q.yaml", code=2).err


MISSPELT = """\
kind: Job
apiVersion: batch.volcano.sh/v1alpha1
metadata: {name: train, namespace: lab}
spec:
  minAvailble: 1
  polices: [{event: PodFailed, action: RestartJob}]
  task: [{name: w, replicas: 1}]
lahar: {minRunSecond: 5}
"""


@pytest.mark.parametrize(("options", "mark"), [((), "warning: "), (("--strict",), "lahar: ")])
@pytest.mark.parametrize("command", [("apply",), ("job", "submit")])
def test_a_misspelt_field_is_named_before_what_follows_from_it(lahar, folder, command, options, mark):
    (folder / "job.yaml").write_text(MISSPELT)
    *named, last = lahar(*command, "job.yaml", *options, code=2).err.splitlines()
    assert named == [
        f"{mark}job.yaml: line 5, column 3: spec.minAvailble: unknown field; did you mean minAvailable?",
        f"{mark}job.yaml: line 6, column 3: spec.polices: unknown field; did you mean policies?",
        f"{mark}job.yaml: line 7, column 3: spec.task: unknown field; did you mean tasks?",
        f"{mark}job.yaml: line 8, column 9: lahar.minRunSecond: unknown field; did you mean minRunSeconds?",
    ]
    assert last == "lahar: job.yaml: line 4, column 1: spec.tasks: No task specified in job spec"


def test_a_misspelt_field_of_an_object_of_the_cluster(lahar, folder):
    (folder / "queue.yaml").write_text("kind: Queue\nmetadata: {name: q}\nspec: {wieght: 3}\n")
    assert "line 3, column 8: spec.wieght: unknown field, left out; did you mean weight?" in lahar("apply", "queue.yaml").err
