#!/bin/sh
# Plays the story into the log that LAHAR_LOG names, else into lahar.db in this folder. Everything in it has a time of its own, so
# it is the same on every run.
set -eu
cd "$(dirname "$0")"
export LAHAR_CONFIG="$PWD/lahar.toml"
exec 2>&1
set -x
lahar apply cluster.yaml quota.yaml train.yaml --at 2026-03-07T09:00:00
lahar podgroup list
lahar why nlp/train
lahar tenant show nlp
lahar apply larger-quota.yaml --at 2026-03-07T10:00:00
lahar podgroup list
