#!/bin/sh
# Plays the story into the log that LAHAR_LOG names, else into lahar.db in this folder. Everything in it has a time of its own, so
# it is the same on every run, and playing it again changes nothing.
set -eu
cd "$(dirname "$0")"
export LAHAR_CONFIG="$PWD/lahar.toml"
exec 2>&1
set -x
lahar apply nodes.yaml job.yaml --at 2026-03-02T09:00:00
lahar ingest --recorded pods.jsonl
lahar timeline search/ranking-ensemble
lahar why search/ranking-ensemble
