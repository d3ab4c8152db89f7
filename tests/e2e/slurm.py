# SPDX-License-Identifier: MIT
"""The task prolog of scripts/slurm: which tasks share with which, and what it says to Slurm."""

import os
import re
import shutil
import signal
import subprocess
import time

import pytest
import support
from slurm_node import ALICE, BOB, BOUND_S, PIECE, Job, Node, Slurm, become, mounted

QUIET = ["/bin/sh", "-c", "/bin/true"]


def nothing(node, job, **more):
    """The task prolog has nothing to say about such a task."""
    slurm = node.task(job, **more)
    assert slurm.environment == {**job.own, **more} and not slurm.printed, slurm.environment


def test_the_fake_slurm_notices_what_is_no_command():
    for wrong in ("hello\n", "export\n", "export X\n", "unset \n", "print x", "\n"):
        with pytest.raises(AssertionError):
            Slurm({}).read(wrong)
    good = Slurm({"A": "1"}).read("export B=a b=\nunset A\nprint  so\n")
    assert good.environment == {"B": "a b="} and good.printed == ["so"]


def test_two_jobs_of_a_user_share(node):
    outcome = support.finish(node.start(Job(), ["/bin/cat", "/proc/self/maps"]))
    assert node.library in outcome.output and (outcome.status, outcome.errors) == (0, ""), outcome.errors
    command = node.decoder()
    jobs = [node.start(Job(), command) for _ in range(2)]
    reference = support.run(command)
    for job in jobs:
        support.same_pictures(reference, support.finish(job), "a job under Slurm")
    assert node.statistics(ALICE)["shared"] > 0, node.statistics(ALICE)


# A job that trains, as far as its end is concerned.
TRAINS = "import sys, torch; from PIL import Image; [Image.open(name).load() for name in sys.argv[1:]]"


def test_a_job_says_at_its_end_what_it_took(node):
    """In the job's output, whatever submitted it."""
    pictures = node.hand_over(support.pictures("s_4"))
    more = {"TSSHIM_KEEP": "1h", "TSSHIM_RING": "64M", "TSSHIM_VERIFY": "0"}

    def says(job=None, **others):
        outcome = support.finish(node.start(job or Job(), [support.PYTHON, "-c", TRAINS, *pictures], **more, **others))
        assert (outcome.status, outcome.output) == (0, ""), outcome.errors
        return outcome.errors

    first = says()
    assert re.fullmatch("tsshim: nothing shared: .*; `tsrun stats --group slurm` tells more\n", first), first
    told = r"tsshim: %d of %d images taken from the kept ring.*; `tsrun stats --group slurm` tells more\n" % (
        (len(pictures),) * 2)
    assert re.fullmatch(told, says())
    assert says(TSSHIM_QUIET="1") == says(TSSHIM_SLURM="off") == ""
    # From a program of a job, or below tsrun on this node or another one; a task of srun's in a batch script.
    state = os.stat("/dev/null")
    for word in ("plain", "line"):
        for process in (support.process_id(os.getpid()), 7):
            outer = "%s:%d:%d:%d" % (word, process, state.st_dev, state.st_ino)
            assert re.fullmatch(told, says(TSSHIM_SUMMARY=outer)), outer
    assert node.task(Job(), TSSHIM_SUMMARY="1").environment["TSSHIM_SUMMARY"] == "1", "the user's own"
    # What the batch job took, at the end of its script.
    job = Job()
    for _ in range(2):
        says(job)
    done = subprocess.run([node.tsrun, "stats", "--batch-job", str(job.number)], env=more, text=True,
                          stdout=subprocess.PIPE, timeout=60, **become(ALICE))
    assert "%d of %d images taken from the kept ring" % ((2 * len(pictures),) * 2) in done.stdout, done.stdout


def test_jobs_of_different_users_do_not(node):
    command = node.decoder()
    for job in [node.start(Job(user), command) for user in (ALICE, BOB)]:
        assert support.finish(job).status == 0
    for user in (ALICE, BOB):
        numbers = node.statistics(user)
        assert numbers["produced"] > 0 and numbers["shared"] == 0, numbers
        for name in node.shared(user):
            state = os.stat("/dev/shm/" + name)
            assert state.st_uid == user and state.st_mode & 0o77 == 0, name


def test_who_shares_can_be_chosen(node):
    def group(job, **more):
        return node.task(job, **more).environment["TSSHIM_GROUP"]

    first, second, third = Job(), Job(array=77), Job(array=77)
    assert group(first) == group(second) == "slurm"
    assert group(first, TSSHIM_SLURM="job") == "slurm-j%d" % first.number
    assert group(first, TSSHIM_SLURM="array") == "slurm-j%d" % first.number
    assert group(second, TSSHIM_SLURM="array") == "slurm-a77"
    node.write_settings("group = array # of a job array\n")
    assert group(first) == "slurm-j%d" % first.number
    assert group(second) == group(third) == "slurm-a77"
    assert group(second, TSSHIM_SLURM="user") == "slurm"
    # A name of the user's own stays; one that an outer job was given does not.
    assert group(second, TSSHIM_GROUP="sweep") == "sweep"
    assert group(second, TSSHIM_GROUP="slurm-j12") == "slurm-a77"
    assert group(second, TSSHIM_GROUP="slurm-jmine") == "slurm-jmine"
    del second.own["SLURM_ARRAY_JOB_ID"], second.own["SLURM_JOB_ID"]
    assert group(second) == "slurm"


def test_existing_preloads_are_kept_and_ours_comes_once(node):
    other = support.TEST_LIBRARY.replace("libtsshim-test.so", "libother.so")
    for there, wanted in (("", node.library), (other, other + ":" + node.library),
                          ("%s liba.so" % other, "%s:liba.so:%s" % (other, node.library)),
                          (":" + other + " :", other + ":" + node.library)):
        environment = node.task(Job(), LD_PRELOAD=there).environment
        assert environment["LD_PRELOAD"] == wanted, (there, environment)
        # As srun in a batch script hands it on.
        again = node.task(Job(), **environment).environment
        assert again["LD_PRELOAD"] == wanted, (wanted, again)
    there = "/gone/libtsshim.so:%s" % other
    assert node.task(Job(), LD_PRELOAD=there).environment["LD_PRELOAD"] == (
        other + ":" + node.library)
    # Another copy does as well: two in one process would both hook.
    copy = os.path.join(node.root, "libtsshim-2.so")
    shutil.copy(node.library, copy)
    assert node.task(Job(), LD_PRELOAD=copy).environment["LD_PRELOAD"] == copy


def test_odd_values_do_not_leave_their_line(node):
    for odd in ("/lib/a'b\"c$(id)`id`;.so", "/lib/\\n\\x0a.so", "/lib/*.so", "/lib/\udcff.so"):
        environment = node.task(Job(), LD_PRELOAD=odd).environment
        assert environment["LD_PRELOAD"] == odd + ":" + node.library, environment
    # These cannot be said: then nothing is.
    for odd in ("/a\nexport EVIL=1\n.so", "/a\nunset HOME", "/a\r.so", "/a\x01.so"):
        nothing(node, Job(), LD_PRELOAD=odd)
    for length in range(PIECE - 300, PIECE + 300, 37):
        tail = "export EVIL=1.so"
        node.task(Job(), LD_PRELOAD="/" + "x" * (length - len(tail)) + tail)
    nothing(node, Job(), LD_PRELOAD="/" + "x" * 2 * PIECE)
    for odd in ("a\nexport EVIL=1", "a b", "x" * 9999):
        environment = node.task(Job(), TSSHIM_GROUP=odd).environment
        assert environment["TSSHIM_GROUP"] == odd and "EVIL" not in environment
        environment = node.task(Job(SLURM_JOB_ID=odd, SLURM_ARRAY_JOB_ID=odd),
                                TSSHIM_SLURM="array").environment
        assert environment["TSSHIM_GROUP"] == "slurm", environment


def test_an_empty_environment_is_enough(node):
    job = Job()
    job.own = {}
    environment = node.task(job).environment
    assert environment == {"LD_PRELOAD": node.library, "TSSHIM_GROUP": "slurm",
                           "APPTAINERENV_LD_PRELOAD": ""}, environment
    # As Slurm calls it, without an argument, and by a link from where sites keep scripts.
    link = os.path.join(node.root, "taskprolog")
    os.symlink(node.find("taskprolog"), link)
    if not os.path.exists("/etc/tsshim/slurm.conf"):
        done = subprocess.run([link], env={}, stdout=subprocess.PIPE, text=True)
        assert done.stdout == node.raw(job, {}), done.stdout


def test_a_hostile_environment_changes_nothing(node):
    evil = os.path.join(node.root, "evil")
    os.mkdir(evil, 0o755)
    for name in ("bash", "cat", "readlink", "stat", "timeout", "sh"):
        support.write(os.path.join(evil, name), "#!/bin/sh\necho export EVIL=1\n", 0o755)
    reference = node.raw(Job(), {})
    for name, value in (("PATH", evil), ("BASH_ENV", os.path.join(evil, "sh")),
                        ("ENV", os.path.join(evil, "sh")), ("SHELLOPTS", "xtrace:posix"),
                        ("BASH_FUNC_stat%%", "() { echo export EVIL=1; }"),
                        ("BASH_FUNC_read%%", "() { echo export EVIL=1; }"),
                        ("POSIXLY_CORRECT", "1"), ("IFS", "/"), ("CDPATH", evil),
                        ("LC_ALL", "none"), ("TMPDIR", "/gone"), ("HOME", "/gone"),
                        ("lines", "export EVIL=1"), ("set_enable", "off"),
                        ("here", evil), ("library", "/evil.so")):
        for old in (False, True):
            got = node.raw(Job(), {name: value}, old)
            assert got == reference, (name, got)


def test_a_library_that_does_not_load_is_left_out():
    for harm in (os.unlink, lambda path: support.overwrite(path, 0, b"garbage"),
                 lambda path: support.overwrite(path, 18, b"\x7a\x7a"),  # e_machine
                 lambda path: os.truncate(path, 5000), lambda path: os.chmod(path, 0o600),
                 lambda path: (os.unlink(path), os.mkfifo(path, 0o666))):
        with Node() as node:
            node.task(Job())
            harm(node.library)
            nothing(node, Job())
            # Nor does what a batch script's task prolog said of a library that is gone stay.
            left = node.task(Job(), LD_PRELOAD="/lib/a.so:/gone/libtsshim.so")
            assert left.environment["LD_PRELOAD"] == "/lib/a.so", left.environment
            assert "cannot be loaded" in node.task(Job(), TSSHIM_SLURM="explain").printed[0]
    for name in ("a blank", "a:colon", "$ORIGIN", "a\nline"):
        with Node(name) as node:
            nothing(node, Job())


def test_a_file_system_without_execution(node):
    prefix = mounted("mount -t tmpfs -o noexec none %s/libs && cp %s %s/libs && "
                     "mount --bind %s/libs/libtsshim.so %s" % (
                         node.root, node.library, node.root, node.root, node.library), ALICE)
    os.mkdir(os.path.join(node.root, "libs"), 0o755)
    slurm = node.task(Job(), prefix)
    assert "LD_PRELOAD" not in slurm.environment, slurm.environment


def test_switching_off_and_on(node):
    preload = "/lib/a.so:" + node.library
    nothing(node, Job(), TSSHIM_SLURM="off")
    nothing(node, Job(), TSSHIM_DISABLE="1", LD_PRELOAD=preload)
    environment = node.task(Job(), TSSHIM_SLURM="off", LD_PRELOAD=preload).environment
    assert environment["LD_PRELOAD"] == "/lib/a.so", environment
    environment = node.task(Job(), TSSHIM_SLURM="off", LD_PRELOAD=node.library).environment
    assert "LD_PRELOAD" not in environment
    node.write_settings("enable = off\n")
    nothing(node, Job(), TSSHIM_SLURM="on", LD_PRELOAD=preload)
    node.write_settings("enable = ask\n")
    nothing(node, Job(), LD_PRELOAD=preload)
    nothing(node, Job(), TSSHIM_SLURM="nonsense")
    for word in ("on", "user", "array", "job"):
        assert "LD_PRELOAD" in node.task(Job(), TSSHIM_SLURM=word).environment


def test_settings_of_the_administrator(node):
    node.write_settings("# ours\n\n  ring=8G\t# of 64\n\tstage = off\n\nenable = on")
    environment = node.task(Job()).environment
    assert environment["TSSHIM_RING"] == "8G", environment
    assert node.task(Job(), TSSHIM_RING="1G").environment["TSSHIM_RING"] == "1G"
    mark = os.path.join(node.root, "mark")
    for line in ("enabled = off", "enable = maybe", "enable", "= on", "group = $(id)",
                 "ring = 1G; touch " + mark, "touch " + mark, "$(touch %s)" % mark,
                 "ring = `touch %s`" % mark, "PATH = /evil", "stage = relative",
                 "stage = /a/../b", "stage = /a'b", "ring = -1", "enable = on off",
                 "\n" * 300, "enable = on\0", "x" * 100000):
        node.write_settings("ring = 8G\n%s\n" % line)
        if "\0" in line:  # bash leaves it out, so that the line is as if it were not there
            continue
        nothing(node, Job())
        assert not os.path.exists(mark), line


def test_settings_that_others_can_write_are_not_used(node):
    def check(harm, undo):
        node.write_settings("ring = 8G\n")
        assert "TSSHIM_RING" in node.task(Job()).environment
        harm()
        nothing(node, Job())
        undo()

    file, place = node.settings, os.path.dirname(node.settings)
    for mode in (0o664, 0o646, 0o666):
        check(lambda mode=mode: os.chmod(file, mode), lambda: None)
    check(lambda: os.chown(file, BOB, 0), lambda: os.chown(file, 0, 0))
    check(lambda: os.chmod(place, 0o777), lambda: os.chmod(place, 0o755))
    check(lambda: os.chown(place, BOB, 0), lambda: os.chown(place, 0, 0))
    # Cannot be read, or would not answer.
    check(lambda: os.chmod(file, 0o600), lambda: None)
    check(lambda: (os.unlink(file), os.mkfifo(file, 0o644)), lambda: os.unlink(file))
    check(lambda: (os.unlink(file), os.mkdir(file, 0o755)), lambda: os.rmdir(file))
    check(lambda: (os.unlink(file), os.symlink("/gone", file)), lambda: os.unlink(file))
    check(lambda: (os.unlink(file), os.symlink("/dev/zero", file)), lambda: os.unlink(file))


def test_containers_get_no_library_that_they_do_not_have(node):
    # An OCI bundle: we run on the node, the task does not.
    nothing(node, Job(), SLURM_CONTAINER="/bundle")
    batch = node.task(Job()).environment
    inside = node.task(Job(), **batch, SLURM_CONTAINER="/bundle").environment
    assert "LD_PRELOAD" not in inside, inside
    # Pyxis: we run inside, too, and a batch script's LD_PRELOAD comes along.
    hidden = mounted("mount -t tmpfs none %s && mkdir %s/slurm && mount --bind %s/scripts "
                     "%s/slurm" % ((os.path.dirname(node.library),) * 2 + (
                         node.root, os.path.dirname(node.library))), ALICE)
    shutil.copytree(os.path.dirname(node.find("taskprolog")),
                    os.path.join(node.root, "scripts"))
    job = Job()
    assert "ld.so" in support.run([*hidden, *QUIET], batch).errors, "hides nothing"
    outcome = support.finish(node.start(job, QUIET, hidden, **batch))
    assert (outcome.status, outcome.errors) == (0, ""), outcome.errors
    # Apptainer, started by the task: hands on what this says instead of LD_PRELOAD.
    environment = node.task(Job(), LD_PRELOAD="/lib/a.so").environment
    assert environment["APPTAINERENV_LD_PRELOAD"] == "/lib/a.so"
    environment = node.task(Job(), APPTAINERENV_LD_PRELOAD="x").environment
    assert environment["APPTAINERENV_LD_PRELOAD"] == "x"
    node.write_settings("containers = share\n")
    environment = node.task(Job(), SLURM_CONTAINER="/bundle").environment
    assert environment["LD_PRELOAD"] == node.library
    assert "APPTAINERENV_LD_PRELOAD" not in environment


def test_shared_memory_that_cannot_be_used(node):
    command = node.decoder(2)
    reference = support.run(command)
    for script in ("mount -t tmpfs -o ro none /dev/shm",
                   "mount -t tmpfs -o size=4k none /dev/shm",
                   "mount -t tmpfs -o mode=700 none /dev/shm"):
        job = node.start(Job(), command, mounted(script, ALICE))
        outcome = support.finish(job)
        outcome.errors = "\n".join(line for line in outcome.errors.splitlines()
                                   if not line.startswith("tsshim: "))
        support.same_pictures(reference, outcome, script)


def test_private_shared_memory(node):
    """As Slurm's namespace plug-ins make it: jobs do not meet, and are not harmed."""
    command = node.decoder()
    reference = support.run(command)
    private = mounted("mount -t tmpfs -o mode=1777 none /dev/shm", ALICE)
    for job in [node.start(Job(), command, private) for _ in range(2)]:
        support.same_pictures(reference, support.finish(job), "private /dev/shm")
    assert node.shared(ALICE) == [], node.shared(ALICE)
    node.administer("epilog", Job())


def test_other_namespaces_do_not_keep_jobs_from_sharing(node):
    """As Enroot makes them; what such a job leaves is in nobody's way and goes in the end."""
    command = node.decoder()
    inside = mounted("true", ALICE) + ["/usr/bin/unshare", "-U", "--map-current-user"]
    for job in [node.start(Job(), command, inside) for _ in range(2)]:
        assert support.finish(job).status == 0
    left = node.shared(ALICE)
    assert left and not any("." + support.own_scope() + "." in name for name in left), left
    for job in [node.start(Job(), command) for _ in range(2)]:
        assert support.finish(job).status == 0
    assert node.statistics(ALICE)["shared"] > 0, node.statistics(ALICE)
    node.administer("epilog", Job())
    assert node.shared(ALICE) == [], node.shared(ALICE)


def test_a_program_that_hangs_does_not_keep_the_task(node):
    node.write_settings("enable = on\n")
    for name in ("cat", "stat"):
        with node.hanging(name) as mount:
            slurm = node.task(Job(), mounted(mount, ALICE))
        assert "LD_PRELOAD" not in slurm.environment, name


def test_killed_while_it_speaks(node):
    """Slurm reads what came before: lines of ours or nothing."""
    whole = node.raw(Job(), {}).splitlines(True)
    for delay in range(0, 40, 2):
        process = subprocess.Popen(node.command("taskprolog"), env={}, text=True,
                                   stdout=subprocess.PIPE, start_new_session=True,
                                   **become(ALICE))
        time.sleep(delay / 1000)
        os.killpg(process.pid, signal.SIGKILL)
        output = process.communicate(timeout=BOUND_S)[0]
        assert output in ("", "".join(whole)), output
