# SPDX-License-Identifier: MIT
"""Default mode: whole samples are shared where that is sound, and no bit of any run differs."""

import os
import tempfile

import numpy
import PIL.Image
import pytest

import meeting
import support
import warm
from aligned_common import YOUNG, counter, job_of, together, well
from support import HERE, Group, finish, run, start

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
    return job_of("exact_job.py")("--images", Pictures.path(), *options)


known = {}


def plain(command):
    """The outcome of @command without us, run once."""
    if tuple(command) not in known:
        known[tuple(command)] = well(warm.run(command))
    return known[tuple(command)]


def counts_of(group):
    """What the group has counted so far; "passed" by reason."""
    statistics = group.statistics()
    counts = {name: counter(group, name) for name in ("produced", "shared")}
    return {**counts, "passed": statistics.get("passed", {}),
            "made_apart": statistics.get("made_apart", {})}


def since(before, counts):
    """What was counted between the two."""
    if isinstance(counts, dict):
        return {name: since(before.get(name, 0 if not isinstance(value, dict) else {}), value)
                for name, value in counts.items()}
    return counts - before


def alike(commands, verify=5, scenes=1, **settings):
    """Each of @commands with all others at the same time is as alone; the group's counters, or with
    more @scenes (joined(), of as many epochs each) a list of those of each scene."""
    expected = [plain(command) for command in commands]
    with meeting.of(len(commands)) as where, Group(**YOUNG, TSSHIM_VERIFY=str(verify), **settings) as group:
        started = [start(command, group.environment(**where)) for command in commands]
        counted = [{}]
        for scene in range(1, scenes):
            support.wait_until(lambda: all(
                process.poll() is not None or meeting.between(where, process, scene)
                for process in started), "the end of scene %d" % scene, support.TIMEOUT)
            counted.append(counts_of(group))
            meeting.go_on(where, scene)
        for wanted, process in zip(expected, started):
            got = finish(process)
            assert got == wanted, (process.args, got.errors[-2000:], [
                pair for pair in zip(wanted.output.splitlines(), got.output.splitlines())
                if pair[0] != pair[1]][:3])
        counted.append(counts_of(group))
        group.assert_clean()
    found = [since(before, after) for before, after in zip(counted, counted[1:])]
    return found if scenes > 1 else found[0]


def joined(*scenes):
    """One job's command that plays all of @scenes, each of them what job() gave."""
    first, *later = scenes
    return [*first, *[word for command in later for word in ("--then", *command[2:])]]


def in_turn(*scenes, **more):
    """As alike() for each of @scenes, lists of as many commands each; in the same processes."""
    commands = [joined(*parts) for parts in zip(*scenes)]
    found = alike(commands, scenes=len(scenes), **more)
    return found if len(scenes) > 1 else [found]


def test_plain_runs_are_those_of_a_new_process():
    command = job("--epochs", 2)
    assert plain(command) == run(command)


def test_equal_seeds_share_and_compute_the_same():
    kinds = (("--workers", 2), ("--workers", 0, "--batch", 48), ("--pipeline", "python"),
             *([(), ("--batch", 5), ("--pipeline", "many")] if support.WHOLE else []))
    scenes = [[job("--epochs", 5, "--seed", seed, *options)] * 3
              for seed, options in enumerate(kinds)]
    for options, counts in zip(kinds, in_turn(*scenes)):
        # Of five epochs of three jobs two thirds can be taken, but for the first epoch.
        assert counts["shared"] > 3 * 3 * IMAGES / 4, (options, counts["shared"])


@support.whole
def test_workers_that_live_on_go_on_with_what_they_know():
    command = job("--epochs", 6, "--workers", 2, "--persistent")
    counts = alike([command] * 3, verify=0)
    # Each worker times two items before it asks for any: once, not in every epoch.
    asked, timed = counts["shared"] + counts["produced"], 3 * 2 * 2
    assert 3 * 6 * (IMAGES - 4) < asked <= 3 * 6 * IMAGES - timed, counts
    assert counts["shared"] > 3 * 3 * IMAGES / 4, counts


@support.whole
def test_workers_of_the_next_epoch_know_what_is_shared():
    counts = alike([job("--epochs", 6, "--workers", 2)] * 3, verify=0)
    # No more than two items in each worker of the first epoch are timed before any is asked for.
    asked = counts["shared"] + counts["produced"]
    assert 3 * 6 * IMAGES - 3 * 2 * 2 <= asked <= 3 * 6 * IMAGES - 3 * 2, counts


@pytest.mark.parametrize("more", [["--persistent"], []])
def test_cheap_items_that_nobody_asks_for_are_left_alone(more):
    """Workers of the next epoch know of it, as the one that lives on does."""
    counts = alike([job("--own", "warming", "--shuffle", 0, "--epochs", 4, *more)], TSSHIM_SHARE="samples")
    # The workers of two epochs find it out at most; an epoch has 40 items.
    assert counts["passed"]["alone"] + counts["passed"]["torch_cheap"] >= 2 * 40, counts
    assert counts["shared"] == 0, counts


@support.whole
def test_large_memory_is_not_read_before_much_work_was_done():
    large, little = ([job("--own", size, "--shuffle", 0, "--epochs", 3)] * 2
                     for size in ("large", "little"))
    counts, of_little = in_turn(large, little)
    assert counts["shared"] == 0 and counts["passed"]["torch_dataset"] >= 2 * 3 * 20, counts
    # It is the size that matters; and who vouches for it wants it read.
    assert of_little["shared"] > 0, of_little
    assert alike(large, TSSHIM_SHARE="samples")["shared"] > 0
    # A worker that lives on comes to it.
    soon = [job("--own", "soon", "--shuffle", 0, "--epochs", 8, "--persistent")] * 2
    assert alike(soon)["shared"] > 0


@support.whole
def test_other_seeds_share_nothing_and_compute_the_same():
    counts = alike([job("--seed", seed) for seed in (1, 2, 3)])
    assert counts["shared"] == 0 and counts["passed"]["torch_cheap"] == 0, counts
    # What could be done about it.
    made, alignable = (counts["made_apart"][name]
                       for name in ("samples", "align_would_share"))
    assert made > IMAGES and alignable * 3 == made * 2, counts


@support.whole
def test_items_without_randomness_are_shared_by_all_seeds():
    commands = [job("--pipeline", "free", "--seed", seed, "--batch", 6 + seed, "--epochs", 5)
                for seed in (1, 2, 3)]
    # In order, as validation sets are, of other pictures; then not.
    others = Pictures.path(240)
    ordered = [[*command, "--shuffle", "0", "--images", others] for command in commands]
    first, counts = in_turn(ordered, commands)
    assert first["shared"] > 0, first
    assert counts["shared"] > 3 * 3 * IMAGES / 3, counts


@support.whole
def test_a_record_of_another_epoch_serves_as_well():
    """A validation set that fits into the ring is prepared once, not once per epoch."""
    counts = alike([job("--pipeline", "free", "--epochs", 8)] * 2, verify=0)
    assert counts["produced"] < 4 * IMAGES, counts


@support.whole
def test_folds_and_concatenations():
    splits = ("fold", "twice")
    scenes = [[job("--split", split)] * 2 + [job("--split", split, "--seed", 2)]
              for split in splits]
    halves = job("--split", "fold", "--pipeline", "free")
    counted = in_turn(*scenes, [halves, job("--pipeline", "free"), halves])
    for split, counts in zip(splits, counted):
        assert counts["shared"] > 0, split


@support.whole
def test_a_balanced_sampler():
    counts = alike([job("--balanced")] * 2 + [job("--balanced", "--seed", 2)])
    assert counts["shared"] > 0, counts


@support.whole
def test_every_hit_is_right_when_all_are_checked():
    counts = alike([job()] * 3, verify=100)
    assert counts["passed"]["verify"] > 50, counts


@support.whole
def test_crops_of_one_picture():
    """What a collate function writes into one of them shows in the other."""
    counts = alike([job("--pipeline", "crops", "--collate", "overlap")] * 2, verify=50)
    assert counts["shared"] > 0 < counts["passed"]["verify"], counts


@support.whole
def test_collate_functions_of_the_users_own():
    kinds = ("inplace", "cutmix")
    scenes = [[job("--collate", collate, "--seed", seed)] * 2
              for seed, collate in enumerate(kinds)]
    for collate, counts in zip(kinds, in_turn(*scenes)):
        assert counts["shared"] > 0, collate


@support.whole
def test_a_collate_function_that_changes_the_data_set():
    """An item changes all later ones, which no copy of it would do."""
    command = job("--own", "views", "--batch", 4, "--epochs", 2)
    changing = [command + ["--collate", "inplace", "--workers", workers] for workers in ("0", "1")]
    counted = in_turn(*[[each] * 2 for each in (command, *changing)])
    assert counted[0]["shared"] > 0, counted
    assert [counts["shared"] for counts in counted[1:]] == [0, 0], counted


def test_a_changed_transform_is_noticed():
    """Also in the middle of an epoch, where the program itself makes the items."""
    in_turn(*[[job("--change", "--workers", workers, "--seed", workers),
               job("--workers", workers, "--seed", workers)] * 2 for workers in (0, 1)])


@support.whole
def test_what_was_patched_in_a_library_is_not_shared():
    for where in ("function", "class"):
        counts = alike([job("--patch", where), job("--patch", where), job(), job()])
        refused = counts["passed"]["torch_dataset"]
        assert refused > 2 * 3 * IMAGES / 2, (where, counts)


@support.whole
def test_what_was_changed_on_an_object_is_shared_with_equals():
    places = ("instance", "hook")  # a hook stays
    scenes = [[job("--patch", where, *more)] * 2 + [job(*more)] * 2
              for where, more in zip(places, (("--epochs", 8), ("--epochs", 8, "--seed", 2)))]
    for where, counts in zip(places, in_turn(*scenes)):
        assert counts["passed"]["torch_dataset"] == 0, (where, counts)
        assert counts["shared"] > 2 * 3 * IMAGES / 3, (where, counts)


def test_verdicts_on_code():
    """Each attack is refused, each ordinary data set is not."""
    command = [support.torch_python(), os.path.join(HERE, "exact_zoo.py"), Pictures.path()]
    outcome = well(run(command, support.plain_environment(
        PYTHONPATH=os.path.join(HERE, "..", "..", "hooks", "torch", "python"))))
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
    commands = [job("--zoo", "refused", "--epochs", 2, "--workers", workers)
                for workers in (0, 1)]
    for counts in in_turn(*[[command] * 2 for command in commands]):
        assert counts["shared"] == counts["produced"] == 0, counts
    tried = plain(joined(*commands)).output.splitlines()
    if support.torch_python() == support.PYTHON:  # others need not have them
        assert tried.count("# read_from_hdf5") == tried.count("# drawn_by_opencv") == 2


def test_what_the_program_changes_is_noticed():
    scenes = [[job("--zoo", "changed", "--epochs", 2, "--batch", 4, "--workers", workers,
                   "--seed", workers)] * 2 for workers in (0, 1)]
    for counts in in_turn(*scenes):
        assert counts["shared"] > 0, counts


@support.whole
def test_what_a_thread_of_the_program_changes_in_a_worker_is_noticed():
    """Workers look seldom, but not where code of the program's runs besides the items."""
    counts = alike([job("--own", "scheduled", "--epochs", 9)] * 2, verify=0)
    assert counts["produced"] > 0, counts


def test_a_draw_that_was_overlooked_is_noticed():
    """Nobody is given such an item; in which order a job makes its own is not repaired."""
    with Group(**YOUNG) as group:
        together([job("--own", "overlooked")] * 2, group)
        assert counter(group, "shared") == 0
        assert group.statistics()["passed"]["torch_impure"] > 0
        group.assert_clean()


def test_code_of_the_users_own_is_refused_with_newer_versions():
    """One of them; decisions.py goes through all, and what is shared all the same."""
    counts = alike([job("--pipeline", "lambda", "--epochs", 2, "--newer", "torch")] * 2)
    assert counts["shared"] == counts["produced"] == 0, counts
    assert counts["passed"]["torch_versions"] > 0, counts
    assert counts["passed"]["torch_dataset"] == 0, counts


@support.whole
def test_the_user_may_vouch_for_a_data_set():
    """--share samples: code of the user's own, with the generators it draws from."""
    counts = alike([job("--own", "vouched")] * 3, TSSHIM_SHARE="samples")
    assert counts["shared"] > IMAGES, counts


@support.whole
def test_a_data_set_that_fills_one_buffer_is_left_alone():
    """Also where the user vouches for it; not one that gives the same target again and again."""
    scenes = [[job("--own", kind, "--epochs", 2)] * 2 for kind in ("buffer", "constant")]
    filled, constant = in_turn(*scenes, TSSHIM_SHARE="samples")
    assert filled["shared"] == filled["produced"] == 0, filled
    assert constant["shared"] > 0, constant


@support.whole
def test_a_data_set_that_fetches_batches_is_asked_for_batches():
    scenes = [[job("--own", "batches", *split)] * 2 for split in ((), ("--split", "fold"))]
    for counts in in_turn(*scenes, TSSHIM_SHARE="samples"):
        assert counts["shared"] == 0, counts


@support.whole
def test_share_pixels_and_off():
    for share in ("pixels", "off"):
        assert alike([job()] * 2, TSSHIM_SHARE=share)["shared"] == 0
