# SPDX-License-Identifier: MIT
"""
Prolog and epilog of scripts/slurm: root's part, which must touch nothing that is not ours; and what the scripts tell
users (TSSHIM_SLURM=explain) and administrators (syslog), and where they do not.
"""

import contextlib
import fcntl
import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import time

import scenes
import support
from slurm_node import ALICE, BOB, Job, Node, become, living, mounted, state_of

SEVERAL = {"SLURM_JOB_NODELIST": "here,[there]"}
OBJECTS = [support.shared_name("slurm", suffix, ALICE) for suffix in ("ledger", "ring")]


class Sharer:
    """A process of a job that has joined the job's group, until it ends or is killed."""

    def __init__(self, node, job, group="slurm"):
        program = node.hand_over([os.path.join(support.BUILD, "tests/unit/tsrun/tsrun-member")])
        self.process = subprocess.Popen([*program, group, "photos"], env=job.own, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        **become(job.user))
        assert self.process.stdout.readline() == "ready\n"

    def end(self, kill=False):
        if kill:
            self.process.kill()
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()


def crash(node, job, group="slurm"):
    """What a job that is killed leaves behind."""
    Sharer(node, job, group).end(kill=True)
    assert len(node.shared(job.user, group)) == 2, node.shared(job.user)


@contextlib.contextmanager
def idle(user, environment, *command):
    """A process that shares nothing, there for a while."""
    process = subprocess.Popen(command or ["/bin/sleep", "100"], env=environment, **become(user), cwd="/",
                               stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def ended(user):
    """A process that its parent has not waited for, as PID 1 of a container may never do."""
    with idle(user, {}, "/bin/true") as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        yield


# The system call exit(2) ends only the thread that makes it.
FIRST_THREAD_ENDS = """
import ctypes, platform, threading
threading.Thread(target=input).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)
"""


@contextlib.contextmanager
def half_ended(user):
    """A process that lives though its first thread has ended; its state looks ended, too."""
    with idle(user, {}, support.PYTHON, "-c", FIRST_THREAD_ENDS) as process:
        support.wait_until(lambda: state_of(process.pid) == "Z", "the end of the first thread")
        yield


def test_the_epilog_removes_what_the_last_job_left(node):
    job = Job()
    for group in ("slurm", "slurm-j7", "a.name"):
        crash(node, job, group)
    crash(node, Job(BOB))
    node.administer("prolog", job)
    node.administer("epilog", job)
    assert node.shared(ALICE) == [], node.shared(ALICE)
    assert len(node.shared(BOB)) == 2, "not that user's job"
    node.administer("epilog", job)
    node.administer("epilog", Job(BOB))
    assert node.shared(BOB) == []


def test_another_job_of_the_user_keeps_it(node):
    first, second = Job(), Job()
    sharer = Sharer(node, second)
    node.administer("epilog", first)
    assert node.shared(ALICE) == OBJECTS, node.shared(ALICE)
    sharer.end()
    # Not even a process that shares: the counters are of the other job as well.
    with idle(ALICE, second.own):
        node.administer("epilog", first)
        assert node.shared(ALICE) == OBJECTS[:1], node.shared(ALICE)
    # Processes of the job itself, of other users, and of nobody's job do not.
    with idle(ALICE, first.own), idle(ALICE, {}), idle(0, {"SLURM_JOB_ID": "5"}), \
            idle(BOB, Job(BOB).own):
        node.administer("epilog", first)
    assert node.shared(ALICE) == [], node.shared(ALICE)


@contextlib.contextmanager
def lying(kinds):
    """{name: what makes it} of objects in /dev/shm until the end; a function that tells which are left."""
    for name, make in kinds.items():
        make("/dev/shm/" + name)

    def left():
        return [name for name in kinds if os.path.lexists("/dev/shm/" + name)]
    try:
        yield left
    finally:
        for name in left():
            os.unlink("/dev/shm/" + name)


def test_the_epilog_follows_no_link_and_spares_what_is_not_ours(node):
    precious = os.path.join(node.root, "precious")
    support.write(precious, "data")
    os.chown(precious, ALICE, ALICE)

    def link(path):
        os.symlink(precious, path)
    own = [support.shared_name(group, "ring", ALICE) for group in ("link", "pipe")]
    other = "tsshim.%d.other" % ALICE
    with lying({OBJECTS[0]: link, own[0]: link, own[1]: os.mkfifo, other: os.mknod, "tsshim-own": os.mknod,
                support.shared_name("hard", "ring", ALICE): os.mknod}) as left:
        kept = left()
        for name in (*own, other):
            os.lchown("/dev/shm/" + name, ALICE, ALICE)
        node.administer("epilog", Job())
        assert left() == kept and len(kept) == 6, set(kept) - set(left())
        assert support.read(precious) == "data"


def test_the_epilog_removes_what_containers_left():
    """Of other namespaces, and where the user has another number; a private process keeps it."""
    digits = "0123456789abcdef" * 2
    gone = ["tsshim.%d.1-2.slurm.%s" % (user, suffix) for user in (ALICE, 0)
            for suffix in ("ring", "ledger", "stage", "f." + digits, "f.%s.part" % digits)]
    kept = ["tsshim.%d.1-2.slurm.f.%s" % (ALICE, digits[1:]),
            "tsshim.%d.12.slurm.ring" % ALICE, "tsshim.%d.1-2.slurm.ring.old" % ALICE]
    with Node() as node, lying(dict.fromkeys(gone + kept, os.mknod)) as left:
        for name in gone + kept:
            os.chown("/dev/shm/" + name, ALICE, ALICE)
        for alive in (idle(ALICE, {}), half_ended(ALICE)):
            with alive:
                node.administer("epilog", Job())
                assert left() == gone + kept
        with ended(ALICE):
            node.administer("epilog", Job())
        assert left() == kept, left()


def stage_of(node, mode=0o755):
    """A directory for staged files, as an administrator makes it."""
    stage = os.path.join(node.root, "stage")
    os.mkdir(stage)
    os.chmod(stage, mode)
    node.write_settings("stage = %s\n" % stage)
    return stage


def test_stage_directories_come_and_go(node):
    stage, job = stage_of(node), Job()
    place = os.path.join(stage, str(ALICE))
    assert "TSSHIM_STAGE" not in node.task(job).environment
    for _ in range(2):
        node.administer("prolog", job)
        state = os.stat(place)
        assert (state.st_uid, state.st_gid, stat.S_IMODE(state.st_mode)) == (
            ALICE, ALICE, 0o700), state
    # Killed between its two steps.
    os.chown(place, 0, 0)
    assert "TSSHIM_STAGE" not in node.task(job).environment
    node.administer("prolog", job)
    assert node.task(job).environment["TSSHIM_STAGE"] == place
    assert node.task(job, TSSHIM_STAGE="off").environment["TSSHIM_STAGE"] == "off"
    os.makedirs(os.path.join(place, "a/b"))
    precious = os.path.join(node.root, "precious")
    os.mkdir(precious)
    os.chown(precious, ALICE, ALICE)
    open(os.path.join(precious, "file"), "w").close()
    os.chown(precious + "/file", ALICE, ALICE)
    os.symlink(precious, os.path.join(place, "link"))
    for name in ("a", "a/b"):
        os.chown(os.path.join(place, name), ALICE, ALICE)
    os.mkdir(os.path.join(stage, str(BOB)))
    with idle(ALICE, Job().own):
        node.administer("epilog", job)
    assert os.path.exists(place + "/a/b")
    node.administer("epilog", job)
    assert os.listdir(stage) == [str(BOB)], os.listdir(stage)
    assert os.listdir(precious) == ["file"]


def test_stage_directories_where_others_can_write_are_not_used(node):
    stage, job = stage_of(node, 0o1777), Job()
    target = os.path.join(node.root, "target")
    os.mkdir(target)
    node.administer("prolog", job)
    assert os.listdir(stage) == []
    # Nor is a link followed, whoever made it.
    os.chmod(stage, 0o755)
    link = os.path.join(stage, str(ALICE))
    os.symlink(target, link)
    open(os.path.join(target, "file"), "w").close()
    node.administer("prolog", job)
    node.administer("epilog", job)
    assert os.stat(target).st_uid == os.lstat(link).st_uid == 0
    assert os.listdir(target) == ["file"]
    os.unlink(link)
    os.rename(stage, stage + "-real")
    os.symlink(stage + "-real", stage)
    node.administer("prolog", job)
    assert os.listdir(stage) == []


def test_settings_that_cannot_be_trusted(node):
    stage, job, mark = stage_of(node), Job(), os.path.join(node.root, "mark")
    node.write_settings("stage = %s\n$(touch %s)\ntouch %s\n" % (stage, mark, mark))
    node.administer("prolog", job)
    node.write_settings("stage = %s\n" % stage, 0o666)
    node.administer("prolog", job)
    os.chmod(node.settings, 0o644)
    os.chown(node.settings, ALICE, ALICE)
    node.administer("prolog", job)
    assert os.listdir(stage) == [] and not os.path.exists(mark)
    # Cleaning needs no setting.
    crash(node, job)
    node.administer("epilog", job)
    assert node.shared(ALICE) == []


def test_odd_job_numbers_and_missing_programs(node):
    stage, job = stage_of(node), Job()
    crash(node, job)
    for odd in ("", "-1", "0x10", "../..", "61001; touch x", "61001\n", "9" * 40, "root"):
        job.ids["SLURM_JOB_UID"] = odd
        node.administer("prolog", job)
        node.administer("epilog", job)
    assert os.listdir(stage) == [] and node.shared(ALICE) == OBJECTS
    job = Job()
    job.ids["SLURM_JOB_GID"] = "evil"
    node.administer("prolog", job)
    os.unlink(node.tsrun)
    with idle(ALICE, {}):
        node.administer("epilog", Job())
    assert node.shared(ALICE) == OBJECTS, "somebody might still use them"
    node.administer("epilog", Job())
    assert node.shared(ALICE) == [], "without gc"


def test_what_hangs_is_given_up(node):
    job = Job()
    crash(node, job)
    for script, program in (("epilog", node.tsrun), ("prolog", "/usr/bin/stat"), ("epilog", "/usr/bin/stat")):
        with node.hanging(program) as mount:
            node.administer(script, job, mounted(mount))
        node.write_settings("enable = on\n")
    node.administer("epilog", job)
    assert node.shared(ALICE) == []


def test_killed_at_any_time(node):
    stage = stage_of(node)
    for delay in range(0, 40, 2):
        job = Job()
        crash(node, job)
        for script in ("prolog", "epilog"):
            process = subprocess.Popen(node.command(script), env=job.ids,
                                       start_new_session=True)
            time.sleep(delay / 1000)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        node.administer("prolog", job)
        assert os.stat(os.path.join(stage, str(ALICE))).st_uid == ALICE
        node.administer("epilog", job)
        assert node.shared(ALICE) == [] and os.listdir(stage) == []


def test_private_shared_memory_leaves_nothing_to_do(node):
    crash(node, Job())
    node.administer("epilog", Job(), mounted("mount -t tmpfs none /dev/shm"))
    assert node.shared(ALICE) == OBJECTS


class Home:
    """Alice has a name and a home, and Slurm has a scontrol, in the mounts of what is started."""

    def __init__(self, node):
        if not shutil.which("memcached", path="/usr/bin:/usr/local/bin"):
            raise support.Skip("memcached", "memcached is not installed (scripts/deps test)")
        if "tsshim-secret" not in os.listdir(os.path.dirname(node.library)):
            raise support.Skip("openssl", "tsshim-secret was not built")
        self.node, self.path = node, os.path.join(node.root, "alice")
        os.mkdir(self.path, 0o700)
        os.chown(self.path, ALICE, ALICE)
        users, self.scontrol = (os.path.join(node.root, name) for name in ("passwd", "scontrol"))
        support.write(users, support.read("/etc/passwd") + "alice:x:%d:%d::%s:/bin/sh\n" % (ALICE, ALICE, self.path), 0o644)
        self.mounts = "mount --bind %s /etc/passwd" % users
        support.write(self.scontrol, "#!/bin/sh\n[ \"$*\" = 'show hostnames here,[there]' ] && "
                      "printf '127.0.0.1\\n192.0.2.1\\n'\n", 0o755)

    def settings(self, more=""):
        """The administrator's, with servers."""
        self.node.write_settings("nodes = auto\nmemory = 64M\nscontrol = %s\n%s" % (
            self.scontrol, more))

    def list(self, job):
        """The administrator's list: one that is this node, as on loopback it must be said which."""
        listed = os.path.join(self.node.root, "list")
        support.write(listed, "127.0.0.1:%d\n" % (20000 + job.number), 0o644)
        self.node.write_settings("nodes = %s\nmemory = 64M\n" % listed)

    def place(self, job):
        return "%s/.cache/tsshim/slurm-%d" % (self.path, job.number)

    def administer(self, script, job, variable="SLURM_JOB_NODELIST"):
        self.node.administer(script, job, mounted(self.mounts), **{variable: "here,[there]"})

    def servers(self):
        """Processes of Alice's that are memcached."""
        return [process for process in living(ALICE) if support.read("/proc/%s/comm" % process) == "memcached\n"]

    def task(self, job, **more):
        return self.node.task(job, mounted(self.mounts, ALICE), **more).environment

    def explained(self, job, prefix=None, **more):
        """What TSSHIM_SLURM=explain prints of servers, behind the group, and what in further lines."""
        line, *others = self.node.task(
            job, prefix or mounted(self.mounts, ALICE), TSSHIM_SLURM="explain", **more).printed
        assert line.startswith("tsshim: on, group slurm"), line
        scenes.note("\n".join(others))
        return [line[len("tsshim: on, group slurm"):], *others]


def test_servers_of_a_job_come_and_go(node):
    home, job = Home(node), Job()
    place = home.place(job)
    assert "TSSHIM_CLUSTER" not in home.task(job)
    home.list(job)
    home.administer("prolog", job)
    assert len(home.servers()) == 1
    assert home.task(job)["TSSHIM_CLUSTER"] == place
    assert home.task(job, TSSHIM_CLUSTER="/own")["TSSHIM_CLUSTER"] == "/own"
    assert home.task(job, TSSHIM_CLUSTER=os.path.dirname(place) + "/slurm-7")["TSSHIM_CLUSTER"] == place
    inner = Job()
    assert "TSSHIM_CLUSTER" not in home.task(inner, TSSHIM_CLUSTER=place)
    state = os.stat(place)
    assert (state.st_uid, stat.S_IMODE(state.st_mode)) == (ALICE, 0o700)
    # Another job's end is not this one's; other processes of the user keep nothing.
    home.administer("epilog", inner)
    assert len(home.servers()) == 1 and os.path.exists(place)
    with idle(ALICE, inner.own):
        home.administer("epilog", job)
    assert home.servers() == [] and not os.path.exists(place)
    assert os.path.isdir(os.path.dirname(place))
    home.administer("epilog", job)
    # Where another node was first to end.
    home.administer("prolog", job)
    assert len(home.servers()) == 1
    shutil.rmtree(place)
    home.administer("epilog", job)
    assert home.servers() == []


def test_servers_of_slurms_list(node):
    """Which of them is this node, its addresses say; here none is one that others reach."""
    home, job = Home(node), Job()
    home.settings()
    home.administer("prolog", job)
    port = 12000 + job.number
    assert support.read(home.place(job) + "/nodes") == "127.0.0.1:%d\n192.0.2.1:%d\n" % (port, port)
    assert home.servers() == []
    home.administer("epilog", job)
    assert not os.path.exists(home.place(job))


def test_a_task_is_told_of_servers_and_why_there_are_none(node):
    """What stands where nodes = auto has started servers, and where it has not."""
    home, job = Home(node), Job()
    place = home.place(job)
    assert home.explained(job) == [""], "nodes = off, and perhaps one node"
    assert home.explained(job, **SEVERAL) == [", no servers: the administrator has not set nodes"]
    home.settings()
    assert home.explained(job) == [", no servers: Slurm does not say which nodes the job has"]
    for variable in ("SLURM_JOB_NODELIST", "SLURM_NODELIST"):
        assert home.explained(job, **{variable: "here"}) == [", no servers: the job is on one node"]
        several = {variable: "here,[there]"}
        [told] = home.explained(job, **several)
        assert told.startswith(", no servers: the prolog has not run on this node, or the home is another"), told
        # Slurm 22.05 gives the prolog the second one only.
        home.administer("prolog", job, variable)
        told, servers = home.explained(job, **several)
        # None of them is an address of this machine that others could reach.
        assert told == ", servers of " + place and servers.startswith("tsshim: the servers: warn, "), (told, servers)
        told = home.explained(job, TSSHIM_CLUSTER="/own", TSSHIM_STAGE="auto")
        assert told == [", servers of TSSHIM_CLUSTER", "tsshim: the servers: fail, /own: No such file or directory"], told
        home.administer("epilog", job, variable)
        assert not os.path.exists(place)
    [line] = node.task(Job(BOB), mounted(home.mounts, BOB), TSSHIM_SLURM="explain", **SEVERAL).printed
    assert "no servers: the home directory is unknown" in line, line
    os.rename(home.path, home.path + "-gone")
    assert home.explained(job, **SEVERAL) == [", no servers: the home directory is not on this node"]


def test_a_task_is_told_of_the_servers_that_doctor_sees(node):
    home, job = Home(node), Job()
    home.list(job)
    home.administer("prolog", job)
    name = "127.0.0.1:%d" % (20000 + job.number)
    stage = {"TSSHIM_STAGE": "auto", **SEVERAL}
    told = home.explained(job, **stage)
    assert told == [
        ", servers of " + home.place(job),
        "tsshim: the servers: ok, %s: %s, this node's, and 0 others of 0 are up" % (home.place(job), name)], told
    assert "TSSHIM_STAGE is off" in home.explained(job, **SEVERAL)[1]
    [server] = home.servers()
    os.kill(int(server), signal.SIGKILL)
    support.wait_until(lambda: not home.servers(), "the end of the server")
    assert "tsshim: the servers: warn, %s, this node's: " % name in home.explained(job, **stage)[1]
    # A build without programs for other nodes.
    os.unlink(os.path.join(os.path.dirname(node.library), "tsshim-peer"))
    assert "tsshim-peer: No such file" in home.explained(job, **stage)[1]
    with node.hanging(node.tsrun) as mount:  # twice: as each version of Slurm runs it
        told = home.explained(job, mounted("%s && %s" % (home.mounts, mount), ALICE), **stage)
    assert told == [", servers of " + home.place(job), "tsshim: the servers: no answer of tsrun doctor in time"]


def test_a_task_is_told_why_the_prolog_could_not_start_a_server(node):
    home, logs, job = Home(node), Logs(node), Job()
    support.write(home.scontrol, "#!/bin/sh\nexit 1\n", 0o755)
    nodes = "nodes = auto\nscontrol = %s\n" % home.scontrol
    why = "scontrol show hostnames: Protocol error"
    begin = "cannot start the server of user %d, job %d: " % (ALICE, job.number)
    assert logs.of("prolog", job, nodes, home.mounts, **SEVERAL) == [begin + why]
    assert home.explained(job, **SEVERAL) == [", no servers: " + why]
    # The other node had more luck: its list is there.
    assert home.explained(job, **SEVERAL, SLURMD_NODENAME="other") == [
        ", no servers: the prolog has not run on this node"]
    assert logs.of("prolog", job, nodes, home.mounts) == [begin + "Slurm does not say which nodes the job has"]
    os.chown(home.path, 0, 0)
    assert logs.of("prolog", Job(), nodes, home.mounts, **SEVERAL)[0].endswith(
        ": the home directory is not here, or takes nothing")
    os.chown(home.path, ALICE, ALICE)
    logs.of("epilog", job, nodes, home.mounts, **SEVERAL)
    assert not os.path.exists(home.place(job))


def test_no_servers_for_one_node_or_without_a_home(node):
    home, job = Home(node), Job()
    home.settings()
    node.administer("prolog", job, mounted(home.mounts), SLURM_JOB_NODELIST="here")
    node.administer("prolog", job, mounted(home.mounts))
    home.administer("prolog", Job(BOB))
    job.ids["SLURM_JOB_ID"] = "../x"
    home.administer("prolog", job)
    assert os.listdir(home.path) == [] and home.servers() == []
    for bad in ("nodes = list\n", "nodes = /a/../b\n", "memory = much\n", "nvme = /x\n",
                "nvme = x:1G\n", "scontrol = scontrol\n"):
        home.settings(bad)
        home.administer("prolog", Job())
        assert os.listdir(home.path) == [], bad


# ---- what they tell ----

class Logs:
    """What a stand-in for logger(1) writes."""

    def __init__(self, node):
        self.node, self.path = node, os.path.join(node.root, "log")
        stand_in = os.path.join(node.root, "logger")
        support.write(stand_in, "#!/bin/sh\nfor last; do :; done\nprintf '%%s\\n' \"$last\" >> %s\n" % self.path, 0o755)
        self.mount = "mount --bind %s /usr/bin/logger" % stand_in

    def of(self, script, job=None, settings="", mounts="true", **environment):
        """The lines that prolog or epilog log."""
        self.node.write_settings(settings)
        open(self.path, "w").close()
        self.node.administer(script, job or Job(), mounted("%s && %s" % (self.mount, mounts)), **environment)
        lines = support.read(self.path)
        scenes.note(lines)
        return lines.splitlines()


def explained(node, settings="", mode=0o644, **more):
    node.write_settings(settings, mode)
    line, = node.task(Job(), TSSHIM_SLURM="explain", **more).printed
    return line


def test_why_a_task_is_left_alone(node):
    on = "tsshim: on, group slurm"
    assert explained(node) == on
    assert explained(node, TSSHIM_DISABLE="1") == "tsshim: off, TSSHIM_DISABLE is 1"
    assert explained(node, TSSHIM_DISABLE="0") == on
    assert explained(node, "enable = off\n") == "tsshim: off, the administrator says so"
    assert explained(node, "enable = ask\n") == on + ", but off in jobs without TSSHIM_SLURM"
    assert explained(node, SLURM_CONTAINER="/image") == "tsshim: off, the task runs in a container"
    assert explained(node, "containers = share\n", SLURM_CONTAINER="/image") == on
    # The administrator is told to the user beside it, for nothing of the file holds.
    for settings, mode, fault in (("# ours\nenable = maybe\n", 0o644, "line 2 is none of ours"),
                                  ("enable = on\n", 0o666, "wrong owner or mode")):
        node.write_settings(settings, mode)
        assert node.task(Job(), TSSHIM_SLURM="explain").printed == [
            "tsshim: the settings are not used: " + fault,
            "tsshim: off, the administrator says so"], settings


def test_what_the_prolog_logs(node):
    logs = Logs(node)
    assert logs.of("prolog", settings="enable = maybe\n") == [
        "the settings of the Slurm scripts are not used: line 1 is none of ours"]
    assert logs.of("prolog", settings="\nstage = off\nnodes\n") == [
        "the settings of the Slurm scripts are not used: line 3 is none of ours"]
    stage = os.path.join(node.root, "stage")
    wanted = "stage = %s\n" % stage
    assert logs.of("prolog", settings=wanted) == ["cannot make a directory for user %d in %s" % (ALICE, stage)]
    os.mkdir(stage, 0o755)
    assert logs.of("prolog", settings=wanted) == []
    job = Job(BOB)  # without a home
    assert logs.of("prolog", job, "nodes = auto\n", **SEVERAL) == [
        "cannot start the server of user %d, job %d: the home directory is unknown, or its path has characters that "
        "are not taken" % (BOB, job.number)]
    assert logs.of("prolog", job, "nodes = auto\n", SLURM_JOB_NODELIST="here") == []


def test_what_the_epilog_logs(node):
    logs = Logs(node)
    told = logs.of("epilog")
    assert told == [], told
    assert logs.of("epilog", settings="enable = maybe\n") == [
        "the settings of the Slurm scripts are not used: line 1 is none of ours"]
    # Something that is not the user's, where copies of files were.
    stage = os.path.join(node.root, "stage")
    os.makedirs(os.path.join(stage, str(ALICE), "of-root", "file"))
    os.chmod(stage, 0o755)
    os.chown(os.path.join(stage, str(ALICE)), ALICE, ALICE)
    assert logs.of("epilog", settings="stage = %s\n" % stage) == ["cannot clean %s/%d" % (stage, ALICE)]
    left = "mount -t tmpfs -o mode=%s none /dev/shm && touch /dev/shm/tsshim.%d.1-2.g.ring && chown %d /dev/shm/*%s"
    alien = left % ("1777", ALICE, ALICE, "")
    assert logs.of("epilog", mounts=alien) == []
    alien = left % ("0755", ALICE, ALICE, "")
    assert "cannot remove what containers of user %d left" % ALICE in logs.of("epilog", mounts=alien)
    os.unlink(node.tsrun)
    assert logs.of("epilog") == ["cannot clean the shared memory of user %d" % ALICE]


def test_a_server_that_cannot_be_ended_is_logged(node):
    home, logs, job = Home(node), Logs(node), Job()
    assert logs.of("epilog", job, "nodes = auto\n", home.mounts, **SEVERAL) == [], open(logs.path).read()
    os.unlink(node.tsrun)
    assert "cannot end the server of user %d, job %d" % (ALICE, job.number) in logs.of(
        "epilog", job, "nodes = auto\n", home.mounts, **SEVERAL)


# ---- by hand ----

def test_a_script_that_is_run_by_hand_says_whose_it_is(node):
    logs = Logs(node)
    job = Job()
    job.ids = {}
    for script, name in (("prolog", "Prolog"), ("epilog", "Epilog")):
        assert logs.of(script, job) == ["this is Slurm's %s: SLURM_JOB_UID is no number" % name]
        # On the terminal, too: stand-ins have none.
        shell = "%s && %s" % (logs.mount, shlex.join(node.command(script)))
        done = subprocess.run(mounted("true") + ["/usr/bin/script", "-qec", shell, "/dev/null"], env={}, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=60)
        assert (done.returncode, done.stdout) == (
            0, "tsshim: this is Slurm's %s: SLURM_JOB_UID is no number\n" % name), done


# ---- the history of a site ----

class History:
    """The file of `history = FILE`, and jobs that have something to put into it."""

    def __init__(self, node):
        self.node, self.place = node, os.path.join(node.root, "history")
        self.path = os.path.join(self.place, "jobs.jsonl")
        os.mkdir(self.place, 0o755)
        self.settings = "history = %s\n" % self.path

    def work(self, job, programs=1):
        for _ in range(programs):
            Sharer(self.node, job).end()
        return job

    def end(self, job, prefix=(), **more):
        self.node.write_settings(self.settings)
        self.node.administer("epilog", job, prefix, **more)

    def lines(self):
        return [json.loads(line) for line in support.read(self.path).splitlines()] if os.path.exists(self.path) else []


def test_the_epilog_notes_what_a_job_took(node):
    history, first, second = History(node), Job(), Job()
    history.work(first, 2)
    history.work(second)
    with idle(ALICE, second.own):
        history.end(first, SLURM_JOB_USER="alice", SLURMD_NODENAME="n1")
    [line] = history.lines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", line.pop("time"))
    nothing = {"made": 0, "taken": 0}
    assert line == {
        "node": "n1", "job": first.number, "uid": ALICE, "user": "alice", "programs": 2,
        "images": {"made": 6, "taken": 18, "given": 0}, "samples": {**nothing, "given": 0},
        "files": nothing, "copies": nothing, "saved_seconds": 3}, line
    state = os.stat(history.path)
    assert (state.st_uid, stat.S_IMODE(state.st_mode)) == (0, 0o600)
    # The mode is the administrator's to choose, and the name may be none that stands in a line.
    os.chmod(history.path, 0o644)
    history.end(second, SLURM_JOB_USER='a"b', SLURMD_NODENAME="n/1")
    line = history.lines()[1]
    assert (line["user"], line["node"], line["job"], line["programs"]) == (None, os.uname().nodename, second.number, 1)
    assert stat.S_IMODE(os.stat(history.path).st_mode) == 0o644
    # The counters are gone with the last job; and a job that met nothing is none of a history.
    history.end(second)
    history.end(Job())
    assert len(history.lines()) == 2, history.lines()
    history.settings = "history = off\n"
    history.end(history.work(Job()))
    assert len(history.lines()) == 2


def test_a_program_under_slurm_is_of_its_job(node):
    """The counters of a real program: what the history has is what `tsrun stats` has."""
    history, jobs = History(node), [Job(), Job()]
    for job in jobs:
        process = node.start(job, node.decoder(2), TSSHIM_KEEP="1h", TSSHIM_RING="64M", TSSHIM_VERIFY="0")
        assert support.finish(process).status == 0
    numbers = node.statistics(ALICE)
    assert numbers["produced"] > 0 and numbers["shared"] > 0, numbers
    with idle(ALICE, jobs[1].own):
        history.end(jobs[0])
    history.end(jobs[1])
    lines = history.lines()
    assert [line["job"] for line in lines] == [job.number for job in jobs]
    for word, name in (("made", "produced"), ("taken", "shared")):
        assert sum(line["images"][word] for line in lines) == numbers[name], (lines, numbers)


def test_lines_of_epilogs_at_once_are_whole(node):
    history, jobs = History(node), [Job() for _ in range(8)]
    for job in jobs:
        history.work(job)
    node.write_settings(history.settings)
    with idle(ALICE, Job().own):
        started = [subprocess.Popen(node.command("epilog"), env=job.ids, start_new_session=True) for job in jobs]
        assert [process.wait(timeout=60) for process in started] == [0] * len(jobs)
    assert sorted(line["job"] for line in history.lines()) == [job.number for job in jobs]


def test_a_history_that_cannot_be_written_is_logged(node):
    history, logs = History(node), Logs(node)

    def says(mounts="true"):
        job = history.work(Job())
        told = logs.of("epilog", job, history.settings, mounts)
        # The rest of its work is others' test, and has limits of time.
        assert "cannot note what job %d took in %s" % (job.number, history.path) in told, told

    # A full disk takes no part of a line.
    old, start, kept = '{"job":1}\n' * 400, os.path.join(node.root, "old"), os.path.join(node.root, "kept")
    support.write(start, old)  # all but 96 bytes of a page

    def disk(size):
        return "mount -t tmpfs -o size=%s,mode=755 none %s && cp %s %s && chmod 600 %s" % (
            size, history.place, start, history.path, history.path)

    says(disk("4k"))
    for size in ("4k", "64k"):
        job = history.work(Job())
        prefix = mounted("%s && %s" % (logs.mount, disk(size)))
        prefix[-2] = prefix[-2].replace('exec "$@"', '"$@"; cp %s %s' % (history.path, kept))
        history.end(job, prefix)
        text = support.read(kept)
        assert text[:len(old)] == old and ('"job":%d,' % job.number in text[len(old):]) == (size == "64k"), text
        assert (text == old) == (size == "4k"), text
    # Nobody else may change it, nor put another in its place.
    for harm, undo in ((lambda: os.chmod(history.place, 0o777), lambda: os.chmod(history.place, 0o755)),
                       (lambda: os.chown(history.place, BOB, 0), lambda: os.chown(history.place, 0, 0)),
                       (lambda: os.symlink("/etc/passwd", history.path), lambda: os.unlink(history.path)),
                       (lambda: os.mkfifo(history.path), lambda: os.unlink(history.path)),
                       (lambda: os.mkdir(history.path), lambda: os.rmdir(history.path)),
                       (lambda: support.write(history.path, "", 0o666), lambda: os.unlink(history.path)),
                       (lambda: os.rename(history.place, history.place + "-"), lambda: os.rename(history.place + "-", history.place))):
        harm()
        says()
        undo()
        assert history.lines() == []
    # What runs as the user can say anything.
    evil = os.path.join(node.root, "evil")
    good = ('{"programs":1,"images":{"made":3,"taken":9,"given":0},"samples":{"made":0,"taken":0,"given":0},'
            '"files":{"made":0,"taken":0},"copies":{"made":0,"taken":0},"saved_seconds":1.500000000}')
    for text in ("", good[:-1], good + "\n" + good, good.replace("3", '3,"uid":0'), good.replace("3", "-3"),
                 good.replace("3", "9" * 30), good.replace("files", "user"), good + " " * 5000):
        support.write(evil, "#!/bin/sh\ncat <<'END'\n%s\nEND\n" % text, 0o755)
        says("mount --bind %s %s" % (evil, node.tsrun))
        assert history.lines() == [], text
    support.write(evil, "#!/bin/sh\n[ $1 != stats ] || yes\n", 0o755)
    says("mount --bind %s %s" % (evil, node.tsrun))
    history.end(history.work(Job()))
    assert len(history.lines()) == 1


def test_a_lock_that_nobody_gives_back_keeps_no_job(node):
    history, logs = History(node), Logs(node)
    with open(history.path, "w") as file:
        os.chmod(history.path, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        job = history.work(Job())
        told = logs.of("epilog", job, history.settings)
        assert "cannot note what job %d took in %s" % (job.number, history.path) in told, told
        assert node.shared(ALICE) == [], "the rest was done"


def test_the_sum_of_a_month(node):
    """The command that docs/cluster.md gives to administrators."""
    page = support.read(os.path.join(os.path.dirname(os.path.dirname(support.HERE)), "docs", "cluster.md"))
    command, = re.findall(r"^\$ (jq .*?')\s+(/\S+)$", page, re.MULTILINE | re.DOTALL)
    history = History(node)
    history.end(history.work(Job(), 2), SLURM_JOB_USER="alice")
    history.end(history.work(Job()), SLURM_JOB_USER="alice")
    month = history.lines()[0]["time"][:7]
    with open(history.path, "a") as file:
        file.write('{"time":"1999-12-31T23:59:59Z","user":"alice","programs":1}\n{"time":"20')  # of a crash
    done = subprocess.run(["sh", "-c", re.sub(r"20\d\d-\d\d", month, command[0]) + " " + history.path], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 0, done.stderr
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"user": "alice", "jobs": 2, "samples": 0, "images": 27, "cpu_hours": 4.5 / 3600}], done.stdout
