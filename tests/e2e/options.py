# SPDX-License-Identifier: MIT
"""
Jobs that a sweep starts with other options share the samples that these do not decide, and none of
those that they do (docs/rooms/options.md).
"""

import os

import support
from aligned_common import aligned, counter, together, without_ring
from support import HERE

JOB = os.path.join(HERE, "options_job.py")
UNREAD = ("Held", "Global", "Held/config", "Kind", "Held/defaults", "Held/frozen", "Held/methods", "Held/easy",
          "Held/dotted", "Held/settings", "Held/simple", "Held/table", "Module")
# Some of these read the leaf in a few items, late in an epoch.
READ = ("Mentioned", "Computed", "Whole", "Spread", "Text", "Copied", "Pickled", "Compared",
        "ModuleComputed", "ModuleWhole", "ModuleDict", "ModuleFound", "Threaded", "Forked", "Nested", "Changed", "Kept", "Elsewhere", "Elsewhere/config",
        "Computed/defaults", "Computed/config", "Whole/config", "Text/config",
        "Pickled/config", "Compared/config", "Whole/defaults", "Text/defaults", "Copied/defaults",
        "Pickled/frozen", "Compared/defaults", "Fields/frozen", "Fields/defaults", "Replaced/frozen",
        "Replaced/config", "Method/methods", "Property/methods", "Indexed/methods", "Whole/methods",
        "Copied/methods", "Strict/table", "Strict/config", "Reclassed/config",
        *("%s/%s" % (way, kind) for kind in ("table", "easy", "dotted") for way in (
            "Entry", "Got", "Passed", "Entries", "Dumped", "Formatted", "Joined", "Text")),
        "Computed/easy", "Computed/dotted", "Everything/easy", "Whole/easy",
        *("%s/simple" % way for way in ("Computed", "Whole", "Spread", "Text", "Copied", "Compared")),
        *("%s/settings" % way for way in ("Computed", "Whole", "Spread", "Derived", "Members")))
if not support.WHOLE:  # the same with items of another class
    READ = tuple(way for way in READ if not way.endswith(("/easy", "/dotted"))
                 or way.startswith(("Entr", "Passed", "Everything", "Whole")))
# In default mode, of code that is known for a function of what it refers to.
JUDGED = ("Judged", "JudgedGlobal", "Judged/config", "Judged/simple", "Judged/defaults")
JUDGED_READ = ("JudgedRate", "JudgedEntry/table", "JudgedEntries/table", "JudgedGot/table", "JudgedPassed/table",
               "JudgedText", "JudgedText/config", "JudgedText/simple", "JudgedFormat", "JudgedCompared")
READ += "Evaluated/table",
FRAMES = "Begun", "Framed", "Closed", "Behind", "Begun/simple", "Closed/config", "Begun/settings"
COUNT, MANY, EPOCHS = 48, 240, 2  # the last two where all is to be taken


def job(ways, rate, *options):
    return [support.torch_python(), JOB, "--lr", rate, "--run", "of-" + rate, *map(str, options),
            *ways]


def facts(outcome):
    return sorted(support.facts(outcome.output))


def alone(ways, rate, *options):
    outcome = without_ring(job(ways, rate, *options))
    assert "an error of tsshim's own" not in outcome.errors, outcome.errors
    return facts(outcome)


def test_what_items_do_not_read_keeps_no_jobs_apart():
    with aligned(TSSHIM_VERIFY="0") as group:
        outcomes = together([job(UNREAD, rate, "--count", MANY, "--epochs", EPOCHS) for rate in ("0.1", "0.3")], group)
        taken = counter(group, "shared")
    assert facts(outcomes[0]) == facts(outcomes[1])
    assert taken >= 0.95 * len(UNREAD) * MANY * EPOCHS, taken  # each of them


def test_what_only_a_collate_function_reads_keeps_no_jobs_apart():
    with aligned(TSSHIM_VERIFY="0") as group:
        outcomes = together([job(("Held",), rate, "--count", MANY, "--epochs", EPOCHS, "--collate-reads")
                             for rate in ("0.1", "0.3")], group)
        taken = counter(group, "shared")
    assert facts(outcomes[0]) == facts(outcomes[1])
    assert taken >= 0.95 * MANY * EPOCHS, taken


def _check_reads(ways, *options):
    rates = "0.1", "0.3"
    wanted = [alone(ways, rate, *options) for rate in rates]
    for way in ways:  # it does decide some, and no others
        one, other = ([line.split(" ") for line in found if line.startswith(way + " ")] for found in wanted)
        assert [words[:3] + words[-1:] for words in one] == [words[:3] + words[-1:] for words in other], way
        assert one != other, way
    with aligned() as group:
        outcomes = together([job(ways, rate, *options) for rate in rates], group)
        taken = counter(group, "shared")
    for outcome, found in zip(outcomes, wanted):
        assert "an error of tsshim's own" not in outcome.errors, outcome.errors
        assert facts(outcome) == found
    assert taken > 0


def test_whatever_way_an_item_reads_them_it_is_the_jobs_own():
    _check_reads(READ)


def test_so_it_is_without_workers():
    # One that changes its options would be another one for each item that the job takes.
    ways = [way for way in READ if not way.startswith(("Changed", "Reclassed"))]
    _check_reads(ways if support.WHOLE else ways[::4], "--workers", "0")


def test_so_it_is_where_items_go_to_nobody_else():
    """They are made many at a time; one that raises because options are watched is made again."""
    ways, found = ("Strict/table", "Strict/config", "Computed", "Entry/table"), []
    for options in ((), ("--cheap",)):
        with support.Group(TSSHIM_ALIGN="1") as group:  # by this seed no item reads any before they are known to be cheap
            outcome, = together([job(ways, "0.1", *options)], group)
            found.append(facts(outcome))
    assert found[0] == found[1]


def test_so_it_is_where_they_are_iterated_over():
    """An iteration keeps what it has read, so all of it has another name from there on."""
    _check_reads([*FRAMES, *(READ if support.WHOLE else READ[::4])], "--stream")
    _check_reads(FRAMES[:4], "--stream", "--epochs", EPOCHS)  # in workers that live on


def test_what_iterations_do_not_read_keeps_no_jobs_apart():
    ways = UNREAD if support.WHOLE else UNREAD[2::3]
    with aligned(TSSHIM_VERIFY="0") as group:
        outcomes = together([job(ways, rate, "--count", MANY, "--epochs", EPOCHS, "--stream") for rate in ("0.1", "0.3")], group)
        taken = counter(group, "shared")
    assert facts(outcomes[0]) == facts(outcomes[1])
    assert taken >= 0.95 * len(ways) * MANY * EPOCHS, taken


def test_what_the_trainer_and_a_collate_function_change_is_read_as_it_is():
    _check_reads(("Mentioned", "Computed", "Computed/config", "Entry/table", "Computed/settings"), "--change", "--epochs", EPOCHS)


def _in_default_mode(ways, *options):
    """How many samples two jobs of equal seeds took, each of which prints what it does without us."""
    jobs = [job(ways, rate, "--seed", 5, *options) for rate in ("0.1", "0.3")]
    wanted = [support.run(command, support.plain_environment()) for command in jobs]
    with support.Group(TSSHIM_VERIFY="0") as group:
        outcomes = together(jobs, group)
        taken = counter(group, "shared")
    for outcome, plain in zip(outcomes, wanted):
        assert "an error of tsshim's own" not in outcome.errors, outcome.errors
        assert plain.status == 0 and outcome.output == plain.output
    return wanted, taken


def test_in_default_mode_they_are_shared_as_well():
    _, taken = _in_default_mode(JUDGED, "--count", MANY)
    assert taken >= 0.5 * len(JUDGED) * MANY, taken


def test_in_default_mode_each_read_is_noticed_as_well():
    wanted, taken = _in_default_mode(JUDGED_READ)
    for one, other in zip(*map(facts, wanted)):
        assert one.split(" ")[0] == other.split(" ")[0] and one != other  # it does decide some
    assert taken > 0


def test_the_exact_class_is_the_one_it_was():
    """Where an item asks for it; its assertion would end the job."""
    with aligned() as group:
        for outcome in together([job(("Exact/config", "Exact/table"), rate, "--workers", "0")
                                 for rate in ("0.1", "0.3")], group):
            assert outcome.status == 0, outcome.errors


def test_an_option_that_decides_all_items_keeps_jobs_apart():
    with aligned() as group:
        outcomes = together([job(("Held", "Global"), "0.1", "--size", size) for size in ("16", "17")],
                            group)
        taken = counter(group, "shared")
    assert taken == 0 and not set(facts(outcomes[0])) & set(facts(outcomes[1]))
