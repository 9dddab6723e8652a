"""Old versions are read as the current one; identity and order stay."""

import pytest

from engine.events import TYPES, UPCASTERS, UndecodableError, decode, encode, inputs
from engine.events.examples import example

V1 = "lahar.command.issued.v1"


def old_command(data: bytes):
    return encode(example("lahar.command.issued.v2"))._replace(type=V1, data=data)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"action":"AbortJob","by":"ada"}', inputs.CommandIssued("AbortJob", by="ada")),
        (b'{"action":"RestartTask","target":"worker"}', inputs.CommandIssued("RestartTask", task="worker")),
        (b'{"action":"RestartPod","target":"worker/3"}', inputs.CommandIssued("RestartPod", task="worker", index=3)),
    ],
)
def test_a_command_of_version_1_named_its_target_in_one_string(data, expected):
    assert decode(old_command(data)).data == expected


def test_id_sequence_and_times_stay():
    message = old_command(b'{"action":"AbortJob"}')
    event = decode(message)
    assert event.type == "lahar.command.issued.v2"
    assert (event.id, event.sequence, event.time, event.recordedtime) == (
        message.id,
        message.sequence,
        message.time,
        message.recordedtime,
    )


@pytest.mark.parametrize("data", [b"", b"[]", b'"x"', b'{"target":5}', b'{"action":"RestartPod","target":"worker/x"}', b"{}"])
def test_old_data_that_cannot_be_read_are_refused_under_their_old_name(data):
    with pytest.raises(UndecodableError):
        decode(old_command(data))


def test_every_chain_of_upcasters_leads_to_a_current_type():
    for old in UPCASTERS:
        chain = [old]
        while chain[-1] in UPCASTERS:
            chain.append(UPCASTERS[chain[-1]][0])
            assert len(chain) == len(set(chain))
        assert chain[-1] in TYPES
