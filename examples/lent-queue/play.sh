#!/bin/sh
# Plays the story into the log that LAHAR_LOG names, else into lahar.db in this folder. Everything in it has a time of its own, so
# it is the same on every run.
set -eu
cd "$(dirname "$0")"
export LAHAR_CONFIG="$PWD/lahar.toml"
exec 2>&1
set -x
lahar apply cluster.yaml sweep.yaml --at 2026-03-06T08:00:00
lahar ingest --recorded sweep-1.jsonl
lahar queue list
lahar apply rank.yaml --at 2026-03-06T11:00:00
lahar ingest --recorded rank-1.jsonl
lahar queue show serving
lahar podgroup list
lahar ingest --recorded sweep-2.jsonl
lahar ingest --recorded rank-2.jsonl
lahar queue list
lahar why nlp/sweep
