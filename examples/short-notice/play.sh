#!/bin/sh
# Plays the story into the log that LAHAR_LOG names, else into lahar.db in this folder. Everything in it has a time of its own, so
# it is the same on every run.
set -eu
cd "$(dirname "$0")"
export LAHAR_CONFIG="$PWD/lahar.toml"
exec 2>&1
set -x
lahar apply cluster.yaml train.yaml --at 2026-03-09T08:00:00
lahar ingest --recorded train-1.jsonl
lahar apply check.yaml --at 2026-03-09T10:00:00
lahar ingest --recorded check-1.jsonl
lahar preemptions list
lahar why nlp/train
lahar why nlp/release-check
lahar preemptions ack nlp/train --at 2026-03-09T10:02:00 --id ack-train-1 --by ann --reason 'checkpoint 1200 is written'
lahar ingest --recorded train-2.jsonl
lahar ingest --recorded check-2.jsonl
lahar preemptions show prod-1/9
lahar timeline nlp/train
