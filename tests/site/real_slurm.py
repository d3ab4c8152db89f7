# SPDX-License-Identifier: MIT
"""
A real Slurm on this machine: Debian's slurmctld and slurmd, with an installation of ours on each node.

    with real_slurm.Site(2, settings="nodes = auto\n") as site:
        job = site.sbatch("srun probe", "-N2")
        site.wait(job)
        print(site.output(job))

The controller and each node have a network, a name, mounts, a /dev/shm and a /tmp of their own.  All of them
have one /run, /etc, process numbers and users, which are not the machine's.  What they write lies in memory:
nothing of it is on the machine.  The first process of these reads from a pipe of ours.  However we end, it
ends, and with it go all other processes and mounts.
"""

import contextlib
import os
import re
import shutil
import subprocess

import pytest

import slurm_node
import support

ALICE, BOB = 61005, 61006  # other tests watch whether processes of their users are left
USERS = {"alice": ALICE, "bob": BOB, "root": 0}
PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "sinfo", "scancel", "munged", "ip",
            "unshare", "nsenter", "setpriv")
CONTROL = "10.77.0.254"
FAILED = pytest.StashKey()  # of a test: whether it has failed
PATH = "/run/site/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
GUARD = 120  # seconds: only what hangs takes so long
FREE = {"idle", "planned"}  # states of a node without a job; planned: for one that waited
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "BOOT_FAIL"}

# The first process; $1 is the number of nodes, $2 what each node does, $3 where the machine has its copy of /etc.
INIT = r"""
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mkdir -p /run/munge /run/site/bin /run/site/home /run/site/out /run/site/go /run/site/state
chmod 1777 /run/site/out /run/site/go
cp -a /etc /run/site/etc
rm -rf /run/site/etc/tsshim /run/site/etc/slurm
mkdir -m 755 /run/site/etc/tsshim /run/site/etc/slurm
mount --bind /run/site/etc /etc
printf '127.0.0.1 localhost\n%s control\n' "$3" > /etc/hosts
for user in alice:61005 bob:61006; do
	name=${user%:*} id=${user#*:}
	echo "$name:x:$id:$id::/run/site/home/$name:/bin/sh" >> /etc/passwd
	echo "$name:x:$id:" >> /etc/group
	mkdir -m 700 "/run/site/home/$name"
	chown "$id:$id" "/run/site/home/$name"
done
printf '#!/bin/sh\nfor last; do :; done\nprintf "%%s\\n" "$last" >> /run/site/syslog\n' > /run/site/logger
chmod 755 /run/site/logger
: > /run/site/syslog
mount --bind /run/site/logger /usr/bin/logger
hostname control
ip link set lo up
ip link add bridge type bridge
ip address add "$3/24" dev bridge
ip link set bridge up
n=0
while [ "$n" -lt "$1" ]; do
	n=$((n + 1))
	echo "10.77.0.$n node$n" >> /etc/hosts
	unshare --net --mount --uts --propagation private sh -euc "$2" sh "$n" &
	echo "$!" > "/run/site/pid.$n"
done
n=0
while [ "$n" -lt "$1" ]; do
	n=$((n + 1))
	until [ -e "/run/site/ready.$n" ]; do sleep 0.02; done
done
echo ready
# Processes whose parents have ended are waited for by the kernel.
exec env --ignore-signal=CHLD cat > /dev/null
"""

NODE = r"""
hostname "node$1"
mount -t tmpfs -o size=2G,mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=1777 tmpfs /tmp
ip link set lo up
nsenter -t 1 --net ip link add "port$1" type veth peer name eth0 netns "$$"
nsenter -t 1 --net ip link set "port$1" master bridge up
ip address add "10.77.0.$1/24" dev eth0
ip link set eth0 up
: > "/run/site/ready.$1"
exec sleep infinity
"""

# One line for each task: where it runs, how often the library is mapped, and what it has of our settings.
PROBE = r"""#!/bin/sh
maps=$(grep -c 'r-xp .*/libtsshim' /proc/self/maps)
echo "probe $(hostname) $SLURM_PROCID lib=$maps $(env | grep '^TSSHIM_' | sort | tr '\n' ' ')"
"""

# Wait for a file of that name, as jobs of a test do for each other and for the test.
AWAIT = r"""#!/bin/sh
until [ -e "/run/site/go/$1" ]; do sleep 0.05; done
"""

CONF = """ClusterName=site
SlurmctldHost=control({control})
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmUser=root
SlurmdUser=root
StateSaveLocation=/run/site/state
SlurmdSpoolDir=/run/site/spool.%n
SlurmctldPidFile=/run/site/slurmctld.pid
SlurmdPidFile=/run/site/slurmd.%n.pid
SlurmctldLogFile=/run/site/slurmctld.log
SlurmdLogFile=/run/site/slurmd.%n.log
SlurmdParameters=config_overrides
SlurmdTimeout=90
ReturnToService=2
KillWait=5
MessageTimeout=60
BatchStartTimeout=100
MpiDefault=none
{more}
NodeName=node[1-{count}] NodeAddr=10.77.0.[1-{count}] CPUs=8 RealMemory=2000 State=UNKNOWN
PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
DEFAULTS = {"TaskPlugin": "task/none", "JobAcctGatherType": "jobacct_gather/none", "PrologFlags": "Alloc",
            "Prolog": "/etc/tsshim/prolog", "TaskProlog": "/etc/tsshim/taskprolog", "Epilog": "/etc/tsshim/epilog"}


def check():
    """Skip where there can be no Slurm."""
    for program in PROGRAMS:
        if not shutil.which(program, path=PATH):
            raise support.Skip("site", "needs %s (scripts/deps site)" % program)
    if os.geteuid() != 0 or subprocess.run(
            ["unshare", "--pid", "--fork", "--mount", "--net", "--uts", "mount", "-t", "tmpfs", "none", "/run"],
            stderr=subprocess.DEVNULL).returncode != 0:
        raise support.Skip("site", "needs root, for namespaces")
    if not shutil.which("memcached", path="/usr/bin:/usr/local/bin"):
        raise support.Skip("memcached", "memcached is not installed (scripts/deps test)")


def version():
    """Of the Slurm that is here: (22, 5)."""
    said = subprocess.run(["/usr/sbin/slurmd", "-V"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return tuple(map(int, re.search(r"(\d+)\.(\d+)", said).groups()))


class Site:
    """A Slurm of @count nodes; @settings are the administrator's, @conf further lines of Slurm's, of which
    {name: None} leaves out one of DEFAULTS.  With @files, {name: text}, there are more files in /etc/slurm.  All of it runs behind the words @wrapper."""

    def __init__(self, count=2, settings="", conf=None, files=None, wrapper=()):
        check()
        self.count, self.names = count, ["node%d" % (n + 1) for n in range(count)]
        self.settings, self.conf, self.files = settings, {**DEFAULTS, **(conf or {})}, files or {}
        self.wrapper = wrapper
        self.init = self.pid = None

    def __enter__(self):
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.init:
            self.init.stdin.close()
            self.init.stdout.close()
            self.init.wait(GUARD)

    # ---- how it begins ----

    def _begin(self):
        self.init = subprocess.Popen(
            [*self.wrapper, "unshare", "--pid", "--fork", "--kill-child", "--mount", "--net", "--uts", "--propagation",
             "private", "sh", "-euc", INIT, "sh", str(self.count), NODE, CONTROL],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/")
        assert self.init.stdout.readline() == "ready\n", "no namespaces"
        with open("/proc/%d/task/%d/children" % (self.init.pid, self.init.pid), encoding="ascii") as file:
            self.pid = int(file.read().split()[0])
        self._install()
        self.write_settings(self.settings)
        more = "\n".join("%s=%s" % item for item in self.conf.items() if item[1] is not None)
        self.write("/etc/slurm/slurm.conf", CONF.format(control=CONTROL, count=self.count, more=more))
        for name, text in self.files.items():
            self.write("/etc/slurm/" + name, text)
        self._start_munge()
        self.start_controller()
        for number in range(1, self.count + 1):
            self.start_node(number)
        self.wait_for_nodes()

    def _install(self):
        """Our installation, the guards of its scripts, and programs of tests."""
        if not slurm_node.Node.installed:
            slurm_node.Node.install()
        shutil.copytree(slurm_node.Node.installed, self.at("/run/site/prefix"), symlinks=True)
        self.scripts = os.path.dirname(self.find("taskprolog"))
        os.symlink(self.find("tsrun"), self.at("/run/site/bin/tsrun"))
        for name, text in (("probe", PROBE), ("await", AWAIT)):
            self.write("/run/site/bin/" + name, text, 0o755)
        # However busy the machine is, nothing that works is given up.
        for name in ("prolog", "taskprolog", "epilog"):
            text = self.read(self.scripts + "/" + name)
            self.write(self.scripts + "/" + name, re.sub(r"(limit_s=\d+)", r"\g<1>0", text), 0o755)
        self.write_guards()

    def write_guards(self, patient=True):
        """In place of Slurm's scripts; those of tests wait ten times as long unless told otherwise."""
        self.run([self.scripts + "/guard", "/etc/tsshim"])
        for name in ("prolog", "taskprolog", "epilog"):
            text = self.read("/etc/tsshim/" + name)
            self.write("/etc/tsshim/" + name, re.sub(r"(-t \d+)", r"\g<1>0", text) if patient else text, 0o755)

    def _start_munge(self):
        self.write("/run/site/munge.key", os.urandom(64), 0o400)
        for path in ("/run/munge", "/run/site/munge.key"):
            shutil.chown(self.at(path), "munge", "munge")
        words = ["--key-file=/run/site/munge.key", "--seed-file=/run/munge/seed", "--log-file=/run/munge/log",
                 "--pid-file=/run/munge/pid", "--socket=/run/munge/munge.socket.2", "--origin=127.0.0.1"]
        self.run(["setpriv", "--reuid", "munge", "--regid", "munge", "--clear-groups", "munged", "--force", *words])

    def start_controller(self):
        self.run(["slurmctld"])

    def stop_controller(self):
        self._end("slurmctld", False)

    def start_node(self, number):
        self.run(["slurmd", "-N", "node%d" % number], node=number)

    def stop_node(self, number, kill=False, meanwhile=None):
        """What it waits for happens in @meanwhile()."""
        self._end("slurmd.node%d" % number, kill, meanwhile)

    def _end(self, name, kill, meanwhile=None):
        process = self.read("/run/site/%s.pid" % name).strip()
        self.run(["kill", "-KILL" if kill else "-TERM", process])
        if meanwhile:
            meanwhile()
        support.wait_until(lambda: not self.lives(process), "the end of " + name, GUARD)

    def lives(self, process):
        """Whether the process of that number, as the site has it, has not ended."""
        with contextlib.suppress(OSError):
            return self.read("/proc/%s/stat" % process).rpartition(") ")[2][0] not in "ZX"
        return False

    def node_states(self):
        """{name: words about it}"""
        said = self.ask("sinfo", "-h", "-N", "-o", "%N %T")
        return dict(line.split() for line in said.splitlines())

    def wait_for_nodes(self):
        """All are there and have nothing to do."""
        support.wait_until(lambda: set(self.node_states().values()) <= FREE, self.told, GUARD)

    # ---- files ----

    def at(self, path):
        """Where this process finds a @path of the site."""
        return "/proc/%d/root%s" % (self.pid, path)

    def find(self, name):
        """The path of an installed file."""
        top = self.at("")
        return next(os.path.join(where, name)[len(top):] for where, _, names in os.walk(self.at("/run/site/prefix"))
                    if name in names and "share" not in where)

    def read(self, path):
        return support.read(self.at(path))

    def exists(self, path):
        return os.path.lexists(self.at(path))

    def write(self, path, content, mode=0o644):
        """A new file, so that one that is being run is none of it."""
        support.write(self.at(path) + ".new", content, mode)
        os.rename(self.at(path) + ".new", self.at(path))

    def write_settings(self, text):
        """The administrator's, from now on."""
        self.write("/etc/tsshim/slurm.conf", text)

    def go(self, name):
        """What waits for the file of that name goes on."""
        support.write(self.at("/run/site/go/" + name), "", 0o644)

    def came(self, name):
        return self.exists("/run/site/go/" + name)

    def wait_for(self, name):
        """Until a job has made the file of that name in /run/site/go."""
        support.wait_until(lambda: self.came(name), lambda: "%s: %s" % (name, self.told()), GUARD)

    @contextlib.contextmanager
    def script(self, name, text):
        """Meanwhile that is what the guards find as our prolog, epilog or task prolog; nothing, with None."""
        path = self.scripts + "/" + name
        os.rename(self.at(path), self.at(path + ".kept"))
        try:
            if text is not None:
                self.write(path, text.replace("REAL", path + ".kept"), 0o755)
            yield
        finally:
            os.rename(self.at(path + ".kept"), self.at(path))

    # ---- commands ----

    def words(self, command, node=None, user="root"):
        words = ["nsenter", "-t", str(self.pid), "--pid", "--mount", "--net", "--uts", "--wd=/"]
        if node:
            words += ["nsenter", "-t", self.read("/run/site/pid.%d" % node).strip(), "--net", "--mount", "--uts", "--wd=/"]
        if user != "root":
            words += ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"]
        return [*words, *command]

    def environment(self, user="root", **more):
        """Of a user's shell: nothing of the one that runs the tests."""
        return {"PATH": PATH, "HOME": "/run/site/home/" + user, "USER": user, "LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1",
                **more}

    def start(self, command, node=None, user="root", **more):
        """In the site, or on that node of it, as that user; @more are variables."""
        return support.start(self.words(command, node, user), self.environment(user, **more))

    def run(self, command, node=None, user="root", status=0, **more):
        """Likewise, to its end, which must have that @status unless that is None."""
        done = support.finish(self.start(command, node, user, **more), GUARD)
        assert status is None or done.status == status, (command, done.status, done.output, done.errors, self.pid and self.told())
        return done

    def ask(self, *command):
        return self.run(command).output

    # ---- jobs ----

    def sbatch(self, script, *options, user="alice", status=0, directory="/run/site/out", **more):
        """The number of the job that runs this shell @script; @more are variables of the user's shell."""
        path = "/run/site/out/script.%d" % len(os.listdir(self.at("/run/site/out")))
        self.write(path, "#!/bin/sh\nset -eu\n%s\n" % script, 0o755)
        done = self.run(["sbatch", "--parsable", "--chdir=" + directory, "--output=/run/site/out/%j.out", *options, path],
                        user=user, status=status, **more)
        return int(done.output) if status == 0 else done

    def states(self, job):
        """Of the job, or of all of its array."""
        return re.findall(r"\bJobState=(\S+)", self.ask("scontrol", "-o", "show", "job", str(job)))

    def fact(self, job, name):
        """What scontrol says of the job under that name."""
        return re.search(r"\b%s=(\S+)" % name, self.ask("scontrol", "-o", "show", "job", str(job))).group(1)

    def wait_state(self, job, *states):
        support.wait_until(lambda: set(self.states(job)) <= set(states), lambda: self.told(job), GUARD)
        return self.states(job)

    def wait(self, *jobs, state="COMPLETED"):
        """Until they have ended, and so did they."""
        for job in jobs:
            found = self.wait_state(job, *ENDED)
            assert set(found) == {state}, (job, found, self.told(job))

    def output(self, job):
        return self.read("/run/site/out/%s.out" % job)

    def done(self, script, *options, **more):
        """What a job prints, from beginning to end."""
        job = self.sbatch(script, *options, **more)
        self.wait(job)
        return self.output(job)

    # ---- what is left ----

    def processes(self, user):
        """Numbers, as the machine has them, of that user's living processes here."""
        space = os.stat("/proc/%d/ns/pid" % self.pid).st_ino
        found = []
        for process in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if os.stat("/proc/" + process).st_uid == USERS[user] \
                        and os.stat("/proc/%s/ns/pid" % process).st_ino == space \
                        and slurm_node.state_of(process) not in "ZX":
                    found.append(int(process))
        return found

    def servers(self, user="alice"):
        """Processes of that user that are memcached."""
        found = []
        for process in self.processes(user):
            with contextlib.suppress(OSError):
                if support.read("/proc/%d/comm" % process) == "memcached\n":
                    found.append(process)
        return found

    def shared(self, node):
        """Names of ours in the /dev/shm of that node."""
        holder = self.read("/run/site/pid.%d" % node).strip()
        names = os.listdir(self.at("/proc/%s/root/dev/shm" % holder))
        return sorted(name for name in names if name.startswith("tsshim"))

    def places(self, user="alice"):
        """Directories of servers in the home of that user."""
        place = self.at("/run/site/home/%s/.cache/tsshim" % user)
        return sorted(name for name in os.listdir(place) if name.startswith("slurm-")) if os.path.isdir(place) else []

    def settle(self):
        """All jobs have ended, no node is drained, and nothing of ours is left anywhere."""
        support.wait_until(lambda: self.ask("squeue", "-h") == "", lambda: self.told(), GUARD)
        support.wait_until(lambda: all(word.strip("*") in FREE for word in self.node_states().values()), self.told, GUARD)
        for user in ("alice", "bob"):
            assert self.servers(user) == [], (user, self.told())
            assert self.places(user) == [], (self.places(user), self.told())
            # A helper that was told to end may need a moment.
            support.wait_until(lambda user=user: self.processes(user) == [], lambda: self.told(), GUARD)
        for number in range(1, self.count + 1):
            assert self.shared(number) == [], (number, self.shared(number), self.told())

    def told(self, job=None):
        """For those that read of a failure."""
        def last(path, lines=25):
            with contextlib.suppress(OSError):
                return "\n%s:\n%s" % (path, "\n".join(self.read(path).splitlines()[-lines:]))
            return ""
        words = [self.run(["sinfo", "-N", "-l"], status=None).output if self.exists("/etc/slurm/slurm.conf") else "",
                 self.run(["squeue"], status=None).output if self.exists("/etc/slurm/slurm.conf") else ""]
        words += [last("/run/site/" + name) for name in ("syslog", "slurmctld.log", "slurmd.node1.log", "slurmd.node2.log")]
        if job:
            words += [self.run(["scontrol", "show", "job", str(job)], status=None).output, last("/run/site/out/%s.out" % job)]
        return "\n".join(words)
