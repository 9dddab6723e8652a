"""Job events without any framework: `python consumer.py HOST:PORT GROUP [TOPIC-PREFIX]`. Says so where an event never came."""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer


async def main(bootstrap: str, group: str, prefix: str = "") -> None:
    """Read on where the group stands; print each event, and commit when all that was fetched is done."""
    consumer = AIOKafkaConsumer(
        f"{prefix}job-events", bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False,
        auto_offset_reset="earliest", isolation_level="read_committed",
    )  # fmt: skip
    last: dict[str, int] = {}  # job → sequence of its last event; bound it where jobs are without number
    async with consumer:
        while True:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                for record in records:
                    headers = {name: value.decode() for name, value in record.headers}
                    job, sequence = headers["ce_subject"], int(headers["ce_sequence"])
                    if sequence <= last.get(job, 0):
                        continue  # it has come again
                    if sequence > last.get(job, sequence - 1) + 1:
                        print(f"GAP: {job} lacks what stands between {last[job]} and {sequence}", flush=True)
                    print(job, sequence, headers["ce_type"], record.value.decode(), flush=True)
                    last[job] = sequence
            await consumer.commit()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
