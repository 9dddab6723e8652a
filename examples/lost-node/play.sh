#!/bin/sh
# Plays the story into the log that LAHAR_LOG names, else into lahar.db in this folder. Everything in it has a time of its own, so
# it is the same on every run, and playing it again changes nothing.
set -eu
cd "$(dirname "$0")"
export LAHAR_CONFIG="$PWD/lahar.toml"
exec 2>&1
set -x
lahar apply nodes.yaml job.yaml --at 2026-03-04T14:00:00
lahar ingest --recorded pods-1.jsonl
lahar ingest --recorded nodes-1.jsonl
lahar ingest --recorded pods-2.jsonl
lahar ingest --recorded nodes-2.jsonl
lahar ingest --recorded pods-3.jsonl
lahar job command nlp/bert-pretrain AbortJob --by amara --reason "the node is gone, I train elsewhere" --id give-up --at 2026-03-04T15:24:50
lahar ingest --recorded pods-4.jsonl
lahar timeline nlp/bert-pretrain
lahar why nlp/bert-pretrain
