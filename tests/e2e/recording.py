# SPDX-License-Identifier: MIT
"""Recordings of what was delivered, as files: killed at any byte, damaged, foreign, no room."""

import os
import re
import tempfile

import pytest
import support

support.search("hooks", "torch", "python")
from tsshim_torch.sharing.order import recording  # noqa: E402

SEED, NAME, OTHER = 7, b"a loader's name.", b"another loader's"


def written(path):
    """Record two loaders with three epochs each; [(name, ordinal, epoch, samples)]."""
    said, wanted = [], []
    recorder = recording.Recorder(path, SEED, said.append)
    for epoch in range(3):
        for ordinal, name in enumerate((NAME, OTHER)):
            number = recorder.begin(name, ordinal, epoch, 12)
            draws = [epoch] * 12 if epoch < 2 else list(range(epoch, epoch + 12))
            occurrences = [at % 3 * ordinal for at in range(12)]
            samples = list(zip(range(100 * epoch, 100 * epoch + 12), occurrences, draws))
            for at in (0, 5, 10):
                recorder.note(number, epoch, *zip(*samples[at:at + 5]))
            wanted.append((name, ordinal, epoch, samples))
    assert not said, said
    return wanted


def given(found, name, ordinal, epoch):
    """What @found gives that loader for its next epoch, in batches of another size."""
    epoch = found.epoch_of(name, ordinal, epoch)
    if epoch.recorded is None:
        epoch.deliver()
        return None
    samples = []
    while True:
        more = epoch.take(7)
        if not more:
            return samples
        samples += more
        epoch.deliver()


def opened(data, directory, seed=SEED):
    path = os.path.join(directory, "copy")
    support.write(path, data)
    return recording.Recording(path, seed)


def refused(says, function, *words):
    with pytest.raises(recording.Unusable, match=re.escape(says)):
        function(*words)


def recorded(directory):
    path = os.path.join(directory, "record")
    wanted = written(path)
    return wanted, support.read(path, "rb")


def test_what_was_written_is_read(directory):
    wanted, data = recorded(directory)
    found = opened(data, directory)
    for name, ordinal, epoch, samples in wanted:
        assert given(found, name, ordinal, epoch) == samples
    assert given(found, NAME, 0, 3) is None and given(found, b"a third one's   ", 2, 0) is None
    # Four bytes a sample where all draws are the epoch's and nothing comes again.
    assert len(data) < 48 + 6 * (40 + 3 * 20) + 6 * 12 * 4 + 2 * 12 * 4 + 3 * 12 * 4


def test_iterators_overlap(directory):
    wanted, data = recorded(directory)
    samples = {(name, epoch): samples for name, _, epoch, samples in wanted}
    found = opened(data, directory)
    first, second = found.epoch_of(NAME, 0, 0), found.epoch_of(NAME, 0, 1)
    had = [first.take(5), second.take(12), first.take(9)]
    assert had[0] + had[2] == samples[NAME, 0] and had[1] == samples[NAME, 1]
    # One that delivered nothing has used nothing up, whichever begins first.
    again = found.epoch_of(NAME, 0, 1)
    second.deliver()
    assert again.take(12) == samples[NAME, 1]
    assert given(found, NAME, 0, 0) == samples[NAME, 0]
    assert given(found, NAME, 0, 2) == samples[NAME, 2]


def test_a_file_ends_wherever_the_job_was_killed(directory):
    wanted, data = recorded(directory)
    most = {}
    for size in range(recording.HEADER_BYTES, len(data)):
        found = opened(data[:size], directory)
        for name, ordinal, epoch, samples in wanted:
            had = given(found, name, ordinal, epoch)
            if had is None:
                continue
            assert had == samples[:len(had)]
            assert len(had) >= most.get((ordinal, epoch), 0)  # more of the file, no less
            most[ordinal, epoch] = len(had)
    assert set(most.values()) == {10, 12}, most  # the last batch of the last one was cut
    for size in range(recording.HEADER_BYTES):
        refused("it is none", opened, data[:size], directory)


def test_a_damaged_byte_is_noticed(directory):
    wanted, data = recorded(directory)
    for at in range(len(data)):
        damaged = data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1:]
        try:
            found = opened(damaged, directory)
        except recording.Unusable as error:
            assert "cannot be replayed" in str(error)
            continue
        # Only as if it had ended before: the length of a chunk, or the last one.
        for name, ordinal, epoch, samples in wanted:
            had = given(found, name, ordinal, epoch)
            assert had is None or had == samples[:len(had)], at


def test_others_are_refused(directory):
    _, data = recorded(directory)
    refused("its seed is 7, not 8", opened, data, directory, 8)
    refused("it is none", opened, b"a text that is long enough to have a header in front", directory)
    newer = bytearray(data)
    newer[8] += 1
    refused("its version is 3", opened, bytes(newer), directory)
    refused("No such file", recording.Recording, os.path.join(directory, "none"), SEED)
    refused("another data set", given, opened(data, directory), OTHER, 0, 0)
    refused("its epoch 0 is here 4", given, opened(data, directory), NAME, 0, 4)


def test_an_error_ends_the_recording_with_a_line():
    for how in ("full", "gone", "there"):
        with tempfile.TemporaryDirectory() as directory:
            path, said = os.path.join(directory, "sub", "record"), []
            os.mkdir(os.path.dirname(path))
            if how == "there":
                open(path, "w").close()
            recorder = recording.Recorder(path, SEED, said.append)
            if how == "full":
                recorder.path = "/dev/full"
            elif how == "gone":
                os.unlink(path)
                os.rmdir(os.path.dirname(path))
            for _ in range(3):
                recorder.note(recorder.begin(NAME, 0, 0, 2), 0, [1, 2], [0, 0], [0, 0])
            assert len(said) == 1 and "ends here" in said[0], (how, said)
            if how == "there":
                assert os.path.getsize(path) == 0  # not ours


def test_each_rank_has_its_own_and_a_child_none(directory):
    path = os.path.join(directory, "record")
    os.environ["RANK"] = "3"
    recorder = recording.Recorder(path, SEED, print)
    del os.environ["RANK"]
    assert os.listdir(directory) == ["record.rank3"]
    size = os.path.getsize(recorder.path)
    child = os.fork()
    if child == 0:
        recorder.begin(NAME, 0, 0, 1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0 and os.path.getsize(recorder.path) == size
    recorder.begin(NAME, 0, 0, 1)
    assert os.path.getsize(recorder.path) > size
