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
