#!/bin/sh
# Plays the story into the log that LAHAR_LOG names, else into lahar.db in this folder. Everything in it has a time of its own, so
# it is the same on every run.
set -eu
cd "$(dirname "$0")"
export LAHAR_CONFIG="$PWD/lahar.toml"
exec 2>&1
set -x
lahar apply cluster.yaml embed.yaml --at 2026-03-05T09:00:00
lahar ingest --recorded embed-1.jsonl
lahar apply train.yaml --at 2026-03-05T09:30:00
lahar ingest --recorded train-1.jsonl
lahar podgroup list
lahar why nlp/train
lahar node list
lahar ingest --recorded embed-2.jsonl
lahar ingest --recorded train-2.jsonl
lahar podgroup show nlp/train
lahar node list
