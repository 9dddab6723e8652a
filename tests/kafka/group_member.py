"""A process that is a member of a group: says what it is to run, whenever that changes. To be killed and frozen.

Usage: python group_member.py BOOTSTRAP PREFIX INSTANCE SESSION
"""

from __future__ import annotations

import sys
import threading
import time

from streams.log import KafkaLog
from streams.membership import GroupMembership
from streams.settings import KafkaSettings

FROZEN_SECONDS = 2.0


def main() -> None:
    bootstrap, prefix, instance, session = sys.argv[1:]
    settings = KafkaSettings(bootstrap_servers=bootstrap, topic_prefix=prefix, session_seconds=float(session))
    log = KafkaLog(settings)
    membership = GroupMembership(log.background, settings, "lifecycle", "job-events", instance)
    changed = threading.Event()
    membership.start(changed.set)
    last, turn = time.monotonic(), membership.turn()
    while True:
        changed.wait(0.05)
        now, before, turn = time.monotonic(), turn, membership.turn()
        woke, last = now - last > FROZEN_SECONDS, now
        if woke:
            print("woke in its turn" if turn is not None and turn == before else "woke", flush=True)
        if changed.is_set():
            changed.clear()
            print(*sorted(membership.shards()), flush=True)


if __name__ == "__main__":
    main()
