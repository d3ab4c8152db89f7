# SPDX-License-Identifier: MIT
"""Default mode: whole samples are shared where that is sound, and no bit of any run differs."""

import os
import tempfile

import numpy
import PIL.Image

import meeting
import support
from support import HERE, Group, finish, run, start

JOB = os.path.join(HERE, "exact_job.py")
IMAGES = 48


class Pictures:
    """ImageFolders of small pictures."""

    directories = {}

    @classmethod
    def path(cls, width=320, count=IMAGES):
        """The one of @count pictures of this @width."""
        if width not in cls.directories:
            directory = cls.directories[width] = tempfile.TemporaryDirectory()
            generator = numpy.random.RandomState(0)
            for number in range(count):
                folder = os.path.join(directory.name, "class%d" % (number % 3))
                os.makedirs(folder, exist_ok=True)
                small = generator.randint(0, 256, (12, 16, 3)).astype(numpy.uint8)
                PIL.Image.fromarray(small).resize(
                    (width, width * 3 // 4), PIL.Image.BICUBIC).save(
                        os.path.join(folder, "%02d.jpg" % number), quality=92)
        return cls.directories[width].name


def job(*options):
    return [support.torch_python(), JOB, "--images", Pictures.path(),
            *[str(option) for option in options]]


def group_of(**settings):
    # The test build also shares samples of files that are younger than a minute.
    return Group(support.TEST_LIBRARY, TSSHIM_TEST_YOUNG_INPUTS="1", **settings)


def counter(group, name, kind="sample"):
    return sum(dataset.get("kinds", dataset)[kind][name]
               for dataset in group.statistics().get("datasets", []))


known = {}


def plain(command):
    """The outcome of @command without us, run once."""
    if tuple(command) not in known:
        outcome = known[tuple(command)] = run(command)
        assert outcome.status == 0, outcome.errors[-2000:]
    return known[tuple(command)]


def alike(commands, verify=5, **settings):
    """Each of @commands with all others at the same time is as alone; the group's counters."""
    expected = [plain(command) for command in commands]
    with meeting.of(len(commands)) as where, \
            group_of(TSSHIM_VERIFY=str(verify), **settings) as group:
        started = [start(command, group.environment(**where)) for command in commands]
        for wanted, process in zip(expected, started):
            got = finish(process)
            assert got == wanted, (process.args, got.errors[-2000:], [
                pair for pair in zip(wanted.output.splitlines(), got.output.splitlines())
                if pair[0] != pair[1]][:3])
        counts = {name: counter(group, name) for name in ("produced", "shared")}
        statistics = group.statistics()
        counts["passed"] = statistics.get("passed", {})
        counts["made_apart"] = statistics.get("made_apart", {})
        group.assert_clean()
    return counts


def test_equal_seeds_share_and_compute_the_same():
    for options in ((), ("--workers", 2), ("--workers", 0, "--batch", 48), ("--batch", 5),
                    ("--pipeline", "many"), ("--pipeline", "python")):
        counts = alike([job("--epochs", 5, *options)] * 3)
        # Of five epochs of three jobs two thirds can be taken, but for the first epoch.
        assert counts["shared"] > 3 * 3 * IMAGES / 4, (options, counts["shared"])


def test_workers_that_live_on_go_on_with_what_they_know():
    command = job("--epochs", 6, "--workers", 2, "--persistent")
    counts = alike([command] * 3, verify=0)
    # Each worker times two items before it asks for any: once, not in every epoch.
    asked, timed = counts["shared"] + counts["produced"], 3 * 2 * 2
    assert 3 * 6 * (IMAGES - 4) < asked <= 3 * 6 * IMAGES - timed, counts
    assert counts["shared"] > 3 * 3 * IMAGES / 4, counts


def test_workers_of_the_next_epoch_know_what_is_shared():
    counts = alike([job("--epochs", 6, "--workers", 2)] * 3, verify=0)
    # No more than two items in each worker of the first epoch are timed before any is asked for.
    asked = counts["shared"] + counts["produced"]
    assert 3 * 6 * IMAGES - 3 * 2 * 2 <= asked <= 3 * 6 * IMAGES - 3 * 2, counts


def test_items_that_are_cheap_after_the_first_are_left_alone():
    command = job("--own", "warming", "--shuffle", 0, "--persistent", "--epochs", 4)
    counts = alike([command], TSSHIM_SHARE="samples")
    # All batches but the first, in which this is found out; 40 items in 5 of them.
    assert counts["passed"]["torch_cheap"] == 4 * 40 - 8, counts


def test_workers_of_the_next_epoch_know_what_is_cheap():
    command = job("--own", "warming", "--shuffle", 0, "--epochs", 4)
    counts = alike([command], TSSHIM_SHARE="samples")
    # The first of them finds it out, as the one that lives on does.
    assert counts["passed"]["torch_cheap"] == 4 * 40 - 8, counts


def test_large_memory_is_not_read_before_much_work_was_done():
    commands = [job("--own", "large", "--shuffle", 0, "--epochs", 3)] * 2
    counts = alike(commands)
    assert counts["shared"] == 0 and counts["passed"]["torch_dataset"] >= 2 * 3 * 20, counts
    # Who vouches for it wants it read; and it is the size that matters.
    assert alike(commands, TSSHIM_SHARE="samples")["shared"] > 0
    little = [job("--own", "little", "--shuffle", 0, "--epochs", 3)] * 2
    assert alike(little)["shared"] > 0
    # A worker that lives on comes to it.
    soon = [job("--own", "soon", "--shuffle", 0, "--epochs", 8, "--persistent")] * 2
    assert alike(soon)["shared"] > 0


def test_other_seeds_share_nothing_and_compute_the_same():
    counts = alike([job("--seed", seed) for seed in (1, 2, 3)])
    assert counts["shared"] == 0 and counts["passed"]["torch_cheap"] == 0, counts
    # What could be done about it.
    made, alignable = counts["made_apart"].values()
    assert made > IMAGES and alignable * 3 == made * 2, counts


def test_items_without_randomness_are_shared_by_all_seeds():
    commands = [job("--pipeline", "free", "--seed", seed, "--batch", 6 + seed, "--epochs", 5)
                for seed in (1, 2, 3)]
    counts = alike(commands)
    assert counts["shared"] > 3 * 3 * IMAGES / 3, counts
    # In order, as validation sets are.
    assert alike([command + ["--shuffle", "0"] for command in commands])["shared"] > 0


def test_a_record_of_another_epoch_serves_as_well():
    """A validation set that fits into the ring is prepared once, not once per epoch."""
    counts = alike([job("--pipeline", "free", "--epochs", 8)] * 2, verify=0)
    assert counts["produced"] < 4 * IMAGES, counts


def test_folds_and_concatenations():
    for split in ("fold", "twice"):
        counts = alike([job("--split", split)] * 2 + [job("--split", split, "--seed", 2)])
        assert counts["shared"] > 0, split
    alike([job("--split", "fold", "--pipeline", "free"), job("--pipeline", "free")])


def test_a_balanced_sampler():
    counts = alike([job("--balanced")] * 2 + [job("--balanced", "--seed", 2)])
    assert counts["shared"] > 0, counts


def test_every_hit_is_right_when_all_are_checked():
    counts = alike([job()] * 3, verify=100)
    assert counts["passed"]["verify"] > 50, counts


def test_collate_functions_of_the_users_own():
    for collate in ("inplace", "cutmix"):
        assert alike([job("--collate", collate)] * 2)["shared"] > 0, collate


def test_a_collate_function_that_changes_the_data_set():
    """An item changes all later ones, which no copy of it would do."""
    command = job("--own", "views", "--batch", 4, "--epochs", 2)
    assert alike([command] * 2)["shared"] > 0
    for workers in ("0", "1"):
        changing = command + ["--collate", "inplace", "--workers", workers]
        assert alike([changing] * 2)["shared"] == 0


def test_a_changed_transform_is_noticed():
    """Also in the middle of an epoch, where the program itself makes the items."""
    for workers in (0, 1):
        alike([job("--change", "--workers", workers), job("--workers", workers)] * 2)


def test_what_was_patched_in_a_library_is_not_shared():
    for where in ("function", "class"):
        counts = alike([job("--patch", where), job("--patch", where), job(), job()])
        refused = counts["passed"]["torch_dataset"]
        assert refused > 2 * 3 * IMAGES / 2, (where, counts)


def test_what_was_changed_on_an_object_is_shared_with_equals():
    for where in ("instance", "hook"):
        more = ("--epochs", 8)
        counts = alike([job("--patch", where, *more)] * 2 + [job(*more)] * 2)
        assert counts["passed"]["torch_dataset"] == 0, (where, counts)
        assert counts["shared"] > 2 * 3 * IMAGES / 3, (where, counts)


def test_verdicts_on_code():
    """Each attack is refused, each ordinary data set is not."""
    command = [support.torch_python(), os.path.join(HERE, "exact_zoo.py"), Pictures.path()]
    outcome = run(command, support.plain_environment(
        PYTHONPATH=os.path.join(HERE, "..", "..", "hooks", "torch", "python")))
    assert outcome.status == 0, outcome.errors[-2000:]
    verdicts = [line.split("|") for line in outcome.output.splitlines()]
    assert len(verdicts) > 200, len(verdicts)
    wrong = [line for line in verdicts if line[2] != line[3]]
    assert not wrong, wrong
    by_hash = {line[1] for line in verdicts if line[4:] == ["True"]}
    assert "goes_through_a_set" in by_hash and "asks_a_set" not in by_hash, by_hash


def test_code_of_the_users_own_is_shared():
    command = job("--zoo", "good", "--epochs", 2, "--images", Pictures.path(320, 24))
    counts = alike([command] * 2)
    passed = counts["passed"]
    # Each of these data sets takes part: what is not shared is counted by its reason.
    assert passed["torch_dataset"] == passed["torch_cheap"] == passed["torch_sample"] == 0, counts
    assert counts["shared"] > counts["produced"] / 4 > 0, counts


def test_code_that_keeps_state_is_not_shared():
    for workers in (0, 1):
        command = job("--zoo", "refused", "--epochs", 2, "--workers", workers)
        counts = alike([command] * 2)
        tried = plain(command).output.splitlines()
        assert "# read_from_hdf5" in tried and "# drawn_by_opencv" in tried
        assert counts["shared"] == counts["produced"] == 0, counts


def test_what_the_program_changes_is_noticed():
    for workers in (0, 1):
        counts = alike([job("--zoo", "changed", "--epochs", 2, "--batch", 4,
                            "--workers", workers)] * 2)
        assert counts["shared"] > 0, counts


def test_what_a_thread_of_the_program_changes_in_a_worker_is_noticed():
    """Workers look seldom, but not where code of the program's runs besides the items."""
    counts = alike([job("--own", "scheduled", "--epochs", 9)] * 2, verify=0)
    assert counts["produced"] > 0, counts


def test_a_draw_that_was_overlooked_is_noticed():
    """Nobody is given such an item; in which order a job makes its own is not repaired."""
    with group_of() as group, meeting.of(2) as where:
        for process in [start(job("--own", "overlooked"), group.environment(**where))
                        for _ in "ab"]:
            outcome = finish(process)
            assert outcome.status == 0, outcome.errors[-2000:]
        assert counter(group, "shared") == 0
        assert group.statistics()["passed"]["torch_impure"] > 0
        group.assert_clean()


def test_code_of_the_users_own_is_refused_with_newer_versions():
    """One of them; decisions.py goes through all, and what is shared all the same."""
    counts = alike([job("--pipeline", "lambda", "--epochs", 2, "--newer", "torch")] * 2)
    assert counts["shared"] == counts["produced"] == 0, counts
    assert counts["passed"]["torch_versions"] > 0, counts
    assert counts["passed"]["torch_dataset"] == 0, counts


def test_the_user_may_vouch_for_a_data_set():
    """--share samples: code of the user's own, with the generators it draws from."""
    counts = alike([job("--own", "vouched")] * 3, TSSHIM_SHARE="samples")
    assert counts["shared"] > IMAGES, counts


def test_a_data_set_that_fetches_batches_is_asked_for_batches():
    for split in ((), ("--split", "fold")):
        counts = alike([job("--own", "batches", *split)] * 2, TSSHIM_SHARE="samples")
        assert counts["shared"] == 0, counts


def test_share_pixels_and_off():
    for share in ("pixels", "off"):
        assert alike([job()] * 2, TSSHIM_SHARE=share)["shared"] == 0


if __name__ == "__main__":
    support.main(support.functions(globals()))
