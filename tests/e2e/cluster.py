# SPDX-License-Identifier: MIT
"""
`tsrun cluster` with real memcached servers on several nodes, which are network namespaces: what
it makes, who may use it, and what it does when something is wrong.
"""

import contextlib
import glob
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile

import nodes
import support

PORT = 11400
STRANGER = 61001  # a user without a name, a home or a process
SECRET = os.path.join(support.BUILD, "tsshim-secret")
FAILED = 125


def write(path, text, mode=0o600):
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    with open(path, "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, mode)) as file:
        file.write(text)
    os.chmod(path, mode)
    return path


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Cluster:
    """@count nodes, and a directory that they all see, which is not made yet."""

    def __init__(self, count=4, hosts=None):
        if not os.path.exists(SECRET):
            raise support.Skip("openssl", "tsshim-secret was not built")
        if not shutil.which("memcached", path="/usr/bin:/usr/local/bin"):
            raise support.Skip("memcached", "memcached is not installed (scripts/deps test)")
        self.nodes = nodes.Nodes(count)
        self.hosts = hosts or self.nodes.addresses
        self.env = support.plain_environment()
        self.env.pop("XDG_RUNTIME_DIR", None)

    def __enter__(self):
        self.nodes.__enter__()
        self.directory = os.path.join(self.nodes.folder, "home", "cluster")
        os.mkdir(os.path.dirname(self.directory))
        self.list = write(os.path.join(self.nodes.folder, "list"), "".join(
            "%s:%d\n" % (host, PORT) for host in self.hosts), 0o644)
        return self

    def __exit__(self, *rest):
        self.nodes.__exit__(*rest)

    def path(self, name):
        return os.path.join(self.directory, name)

    def words(self, *words, directory=None):
        return [support.TSRUN, "cluster", words[0], "--dir", directory or self.directory, *words[1:]]

    def tsrun(self, number, *words, directory=None, env=None, user=None):
        return self.nodes.run(number, self.words(*words, directory=directory), env or self.env, user)

    def expect(self, number, pattern, *words, **more):
        """It succeeds, and says this; what the pattern found."""
        done = self.tsrun(number, *words, **more)
        assert done.status == 0 and done.errors == "", (words, done.status, done.errors)
        found = re.fullmatch(pattern, done.output)
        assert found, done.output
        return found

    def refuse(self, number, errors, *words, **more):
        """It fails with that message, and nothing runs afterwards that did not before."""
        before = self.nodes.processes(number)
        done = self.tsrun(number, *words, **more)
        assert done.status == FAILED, (done.status, done.output, done.errors)
        assert done.errors == errors, done.errors
        assert self.nodes.processes(number) == before

    def up(self, number, *words, **more):
        """The number of the server's process."""
        return int(self.expect(number, r"(?:the list .*\n)?up: .*, process (\d+), .*\n", "up", *words,
                               **more).group(1))

    def up_all(self):
        done = self.nodes.run_all(self.words("up", "--nodes", self.list), self.env)
        assert [(one.status, one.errors) for one in done] == [(0, "")] * self.nodes.count, [
            one.errors for one in done]
        return [int(re.search(r"process (\d+)", one.output).group(1)) for one in done]

    def status(self, number, **more):
        """What --json says; the exit status follows from it."""
        done = self.tsrun(number, "status", "--json", **more)
        assert done.errors == "", done.errors
        found = json.loads(done.output)
        assert done.status == (any(one["state"] != "up" for one in found["nodes"])), done.status
        for one in found["nodes"]:
            for name in ("memory_used", "memory_limit", "items", "hits", "misses"):
                assert (one[name] is not None) == (one["state"] == "up"), one
        return found

    def states(self, number, **more):
        return [one["state"] for one in self.status(number, **more)["nodes"]]

    def await_states(self, number, states, **more):
        """
        What status says when these are the states.  A server may take longer than the second that it
        has, where the machine is slow.
        """
        def look():
            found = self.status(number, **more)
            return [one["state"] for one in found["nodes"]] == states and found
        return support.wait_until(look, "states %s" % states)

    def runtime(self, number, pattern="*"):
        """Names of what lies in the runtime directory of that node."""
        done = self.nodes.run(number, ["find", "/run/user/0/tsshim", "-name", pattern, "-type", "f"])
        return done.output.split()


def talk(number, cluster, program):
    """What a program of Python in that node prints, which has the server's address in `server`."""
    begin = "import socket, ssl\nserver = (%r, %d)\n" % (cluster.nodes.addresses[1], PORT)
    done = cluster.nodes.run(number, [sys.executable, "-c", begin + program])
    assert done.errors == "", done.errors
    return done.output


def wait_for(condition, what):
    return support.wait_until(condition, what)


def is_gone(process):
    return not os.path.exists("/proc/%d" % process) or read("/proc/%d/stat" % process).rpartition(
        ") ")[2][0] in "ZX"


# ---- what works -------------------------------------------------------------------------------


def test_four_nodes_at_once_make_one_cluster():
    with Cluster() as four:
        processes = four.up_all()
        assert len(set(processes)) == 4
        for number, process in enumerate(processes):
            found = four.await_states(number, ["up"] * 4)
            assert [one["here"] for one in found["nodes"]] == [i == number for i in range(4)]
            assert (found["process"], found["tls"]) == (process, True)
            assert found["directory"] == four.directory
            assert [(one["host"], one["port"], one["weight"]) for one in found["nodes"]] == [
                (host, PORT, 1) for host in four.hosts]
        assert all(not is_gone(process) for process in processes)


def test_status_for_people():
    with Cluster(2) as two:
        two.up(0, "--nodes", two.list, "--memory", "128M")
        done = wait_for(lambda: (one := two.tsrun(1, "status")).output[0] == "1" and one, "an answer")
        assert (done.status, done.errors) == (1, "")
        assert done.output == (
            "1 of 2 servers are up; * is this node\n"
            "  10.77.0.1:11400 up, 0 bytes of 128.0 MiB, 0 items, hits n/a\n"
            "  10.77.0.2:11400 no server there\n"), done.output


def test_names_and_addresses_of_both_kinds():
    with Cluster(3) as three:
        write(three.list, "# of three kinds\nnode1:11500 weight=3\n[fd77::2]:11501\n\n"
              "10.77.0.3:11502\n")
        for number in range(3):
            three.up(number, "--nodes", three.list)
        found = three.await_states(1, ["up"] * 3)
        assert [one["host"] for one in found["nodes"]] == ["node1", "fd77::2", "10.77.0.3"]
        assert [one["weight"] for one in found["nodes"]] == [3, 1, 1]
        # On that address, and nowhere else.
        done = three.nodes.run(1, ["ss", "-Hltn"])
        assert [line.split()[3] for line in done.output.splitlines()] == ["[fd77::2]:11501"]


def test_who_makes_it_at_once_agrees_on_one_certificate():
    """And not only in the end: a server begins with what it finds then, and keeps it."""
    # What stands for a node; it reads the certificate as soon as its own half is done.
    maker = ["sh", "-euc", '"$0" make "$1" "$2" tls; cat "$1/cert.pem"', SECRET]
    for _ in range(10):
        with tempfile.TemporaryDirectory() as folder:
            hosts = write(os.path.join(folder, "list"), "10.77.0.1:11400\n10.77.0.2:11400\n")
            words = [os.path.join(folder, "cluster"), hosts]
            started = [support.start([*maker, *words], support.plain_environment())
                       for _ in range(6)]
            done = [support.finish(process) for process in started]
            assert [(one.status, one.errors) for one in done] == [(0, "")] * 6
            assert len({one.output for one in done}) == 1
            assert len(glob.glob(os.path.join(words[0], "cert-*.pem"))) == 1


def test_a_certificate_that_does_not_fit_has_a_successor():
    with Cluster(2) as two:
        two.up_all()
        for number in range(2):
            two.expect(number, "down: .*\n", "down")
        named, = glob.glob(two.path("cert-*.pem"))
        unfit = write(named, "it has ended\n")
        os.unlink(two.path("cert.pem"))
        two.up_all()
        assert read(unfit) == "it has ended\n"
        assert sorted(glob.glob(two.path("cert-*.pem"))) == [named, named.replace(".0.pem", ".1.pem")]
        two.await_states(0, ["up", "up"])


def test_up_again_changes_nothing():
    with Cluster(2) as two:
        first = two.up_all()
        before = {path: (read(path), os.stat(path).st_ino) for path in glob.glob(two.path("*"))}
        for words in ([], ["--nodes", two.list]):
            again = two.expect(0, r"up already: 10.77.0.1:11400, process (\d+)\n", "up", *words)
            assert int(again.group(1)) == first[0]
        assert {path: (read(path), os.stat(path).st_ino)
                for path in glob.glob(two.path("*"))} == before
        assert two.nodes.processes(0) == [first[0]]


def test_two_at_once_on_one_node_start_one_server():
    with Cluster(1) as one:
        started = [one.nodes.start(0, one.words("up", "--nodes", one.list), one.env)
                   for _ in range(4)]
        done = [support.finish(process) for process in started]
        assert [(outcome.status, outcome.errors) for outcome in done] == [(0, "")] * 4
        assert sorted(outcome.output.split(":")[0] for outcome in done) == ["up"] + ["up already"] * 3
        assert len(one.nodes.processes(0)) == 1


def test_down_ends_its_server_and_leaves_the_directory():
    with Cluster() as four:
        processes = four.up_all()
        files = sorted(os.listdir(four.directory))
        for number, process in enumerate(processes):
            assert four.runtime(number) != []
            four.expect(number, "down: .*, process %d\n" % process, "down")
            assert is_gone(process)
            assert four.runtime(number) == []
            assert four.nodes.processes(number) == []
            four.expect(number, "not up: .*\n", "down")
        four.await_states(0, ["down"] * 4)
        assert sorted(os.listdir(four.directory)) == files


def test_down_when_another_node_has_removed_the_directory():
    with Cluster(1) as one:
        process = one.up(0, "--nodes", one.list)
        shutil.rmtree(one.directory)
        one.expect(0, "down: .*, process %d\n" % process, "down")
        assert one.runtime(0) == []


def test_a_node_joins_late():
    with Cluster(3) as three:
        three.up(0, "--nodes", three.list)
        three.up(1)
        three.await_states(0, ["up", "up", "down"])
        three.up(2)
        for number in range(3):
            three.await_states(number, ["up"] * 3)


def test_a_killed_server_is_told_and_started_anew():
    with Cluster(2) as two:
        processes = two.up_all()
        os.kill(processes[0], signal.SIGKILL)
        wait_for(lambda: is_gone(processes[0]), "the server is gone")
        two.await_states(1, ["down", "up"])
        found = two.await_states(0, ["down", "up"])
        assert found["process"] is None
        assert [one["here"] for one in found["nodes"]] == [False, False]
        assert two.up(0) != processes[0]
        two.await_states(1, ["up", "up"])


def test_gc_removes_what_a_killed_server_left():
    with Cluster(2) as two:
        store = os.path.join(two.nodes.folder, "store")
        killed = two.up(0, "--nodes", two.list, "--memory", "100M", "--nvme", store + ":1G")
        living = two.up(1)
        before = two.runtime(0)

        def gc(number, *words):
            """Lines about that node; all nodes have one /tmp, with what others may leave there."""
            done = two.nodes.run(number, [support.TSRUN, "gc", *words], two.env)
            assert (done.status, done.errors) == (0, ""), done.errors
            return "".join(line for line in done.output.splitlines(True) if "/run/user/0/" in line)
        assert gc(0) == gc(0, "--group", "none") == ""
        dry = gc(0, "-n")
        assert re.search(r"^would keep /run/user/0/tsshim/server\.[0-9a-f]{16}\.\*: its process may "
                         "live$", dry, re.M), dry
        assert two.runtime(0) == before
        os.kill(killed, signal.SIGKILL)
        wait_for(lambda: is_gone(killed), "the server is gone")
        end = (r"/run/user/0/tsshim/server\.[0-9a-f]{16}\.\*: the server 10\.77\.0\.1:11400 of %s has "
               r"ended; and %s\.0\.11400\n" % (re.escape(two.directory), re.escape(store)))
        dry = gc(0, "-n")
        assert re.fullmatch("would remove " + end, dry), dry
        assert gc(0, "--group", "none") == ""
        assert two.runtime(0) == before and os.path.exists(store + ".0.11400")
        said = gc(0)
        assert re.fullmatch("removed " + end, said), said
        assert two.runtime(0) == [] and not os.path.exists(store + ".0.11400")
        assert gc(1) == "" and not is_gone(living) and len(two.runtime(1)) > 0


def doctor(cluster, number, **more):
    """The check of the cluster, and nothing else is said."""
    env = {**cluster.env, "TSSHIM_CLUSTER": cluster.directory, "TSSHIM_STAGE": "shm", **more}
    done = cluster.nodes.run(number, [support.TSRUN, "doctor", "--json"], env)
    assert done.errors == "", done.errors
    return {check["id"]: check for check in json.loads(done.output)}["cluster"]


def test_doctor_looks_at_this_nodes_part():
    with Cluster(2) as two:
        down = doctor(two, 0)
        assert down["state"] == "fail" and two.directory in down["found"], down
        assert down["fix"] == "tsrun cluster up --dir %s --nodes FILE" % two.directory
        assert two.runtime(0) == [], "it leaves nothing"
        two.up(0, "--nodes", two.list)
        wait_for(lambda: doctor(two, 0)["state"] == "ok", "the server answers")
        found = doctor(two, 1)
        assert (found["state"], found["fix"]) == ("warn", "tsrun cluster up --dir " + two.directory)
        assert found["found"] == "10.77.0.2:11400, this node's: no server there", found
        two.up(1)
        found = wait_for(lambda: (one := doctor(two, 1))["state"] == "ok" and "1 others" in
                         one["found"] and one, "both answer")
        assert found["found"] == ("%s: 10.77.0.2:11400, this node's, and 1 others of 1 are up" %
                                  two.directory), found
        assert doctor(two, 1, TSSHIM_STAGE="off")["fix"] == "--stage auto"
        write(two.list, "10.77.0.1:11400\n")
        two.expect(1, "down: .*\n", "down")
        shutil.copy(two.list, two.path("nodes"))
        found = doctor(two, 1)
        assert found["state"] == "warn" and found["found"].startswith("no server of "), found
        assert found["fix"].startswith("say which with --self HOST"), found
        os.chmod(two.directory, 0o755)
        found = doctor(two, 0)
        assert found["state"] == "fail" and "chmod 700" in found["fix"], found
        os.chmod(two.directory, 0o700)
        write(two.path("nodes"), "10.77.0.1:11400\nnonsense\n")
        found = doctor(two, 0)
        assert found["state"] == "fail" and "nodes:2: " in found["found"], found
        assert found["fix"] == "mend that line, on all nodes"


def test_what_is_silent_or_cut_off():
    with Cluster(3) as three:
        processes = three.up_all()
        os.kill(processes[1], signal.SIGSTOP)
        three.nodes.cut(2)
        found = wait_for(lambda: (states := three.states(0))[0] == "up" and states, "an answer")
        assert found[1] == "silent" and found[2] in ("silent", "unreachable"), found
        os.kill(processes[1], signal.SIGCONT)
        three.nodes.mend(2)
        three.await_states(0, ["up"] * 3)


def test_a_new_list_brings_a_new_certificate_and_keeps_the_secret():
    with Cluster(3) as three:
        write(three.list, "10.77.0.1:11400\n10.77.0.2:11400\n")
        first = three.up(0, "--nodes", three.list)
        three.up(1)
        secret, key, old = (read(three.path(name)) for name in ("secret", "key.pem", "cert.pem"))
        write(three.list, "10.77.0.1:11400\n10.77.0.2:11400\n10.77.0.3:11400\n")
        three.up(2, "--nodes", three.list)
        assert (read(three.path("secret")), read(three.path("key.pem"))) == (secret, key)
        assert read(three.path("cert.pem")) != old
        # They still have the old one.
        three.await_states(2, ["certificate", "certificate", "up"])
        assert three.up(0) != first
        three.up(1)
        three.await_states(2, ["up"] * 3)
        # The same hosts with another weight need no other.
        now = read(three.path("cert.pem"))
        write(three.list, "10.77.0.1:11400\n10.77.0.2:11400 weight=2\n10.77.0.3:11400\n")
        three.expect(0, "up already: .*\n", "up", "--nodes", three.list)
        assert read(three.path("cert.pem")) == now
        assert [one["weight"] for one in three.status(1)["nodes"]] == [1, 2, 1]


def test_secrets_are_exchanged_without_a_new_server():
    with Cluster(2) as two:
        processes = two.up_all()
        old, new = read(two.path("secret")), "f" * 64 + "\n"
        for text in (old + new, new + old, new):
            write(two.path("secret"), text)
            for number in range(2):
                found = two.expect(number, r"up already: .*, process (\d+), with new tokens\n", "up")
                assert int(found.group(1)) == processes[number]
            # It reads them a moment later.
            two.await_states(0, ["up", "up"])
        mine = os.path.join(two.nodes.folder, "mine")
        shutil.copytree(two.directory, mine)
        write(os.path.join(mine, "secret"), old)
        # The old token is forgotten.
        two.await_states(0, ["refused", "refused"], directory=mine)


def test_memory_and_storage():
    with Cluster(2) as two:
        store = os.path.join(two.nodes.folder, "store")
        two.up(0, "--nodes", two.list, "--memory", "100M", "--nvme", store + ":1G")
        assert os.listdir(two.nodes.folder).count("store.0.11400") == 1
        assert stat.S_IMODE(os.stat(store + ".0.11400").st_mode) == 0o600
        write(two.path("cluster.conf"), "memory = 200M\n")
        two.up(1)
        found = two.await_states(0, ["up", "up"])["nodes"]
        assert [one["memory_limit"] for one in found] == [100 << 20, 200 << 20]
        two.expect(0, "down: .*\n", "down")
        assert not os.path.exists(store + ".0.11400")
        two.refuse(0, "tsrun: 1.0 MiB of memory is too little for a server\n"
                   "hint: say --memory 64M or more\n", "up", "--memory", "1M")
        two.refuse(0, "tsrun: option '--nvme' has a bad value 'store:1G'\nhint: it must be the absolute "
                   "path of a file and a size, as in /local/cache:500G\n", "up", "--nvme", "store:1G")


def test_slurms_nodes():
    with Cluster(2) as two:
        place = os.path.join(two.nodes.folder, "bin")
        os.mkdir(place)
        write(os.path.join(place, "scontrol"), "#!/bin/sh\n[ \"$*\" = 'show hostnames node[1-2]' ] && "
              "printf 'node1\\nnode2\\n'\n", 0o755)
        env = {**two.env, "PATH": place + ":" + two.env["PATH"], "SLURM_JOB_ID": "4711",
               "SLURM_JOB_NODELIST": "node[1-2]"}
        for number in range(2):
            two.up(number, "--nodes", "auto", env=env)
        assert [(one["host"], one["port"]) for one in two.await_states(0, ["up", "up"])["nodes"]] == [
            ("node1", 12000 + 4711), ("node2", 12000 + 4711)]
        two.refuse(0, "tsrun: --nodes auto is for jobs of Slurm: SLURM_JOB_NODELIST or SLURM_JOB_ID is "
                   "not set\n", "up", "--nodes", "auto")


def test_the_directory_of_the_environment():
    with Cluster(1) as one:
        one.up(0, "--nodes", one.list)
        done = one.nodes.run(0, [support.TSRUN, "cluster", "down"],
                             {**one.env, "TSSHIM_CLUSTER": one.directory})
        assert done.status == 0 and done.output.startswith("down: "), done.errors
        done = one.nodes.run(0, [support.TSRUN, "cluster", "down"], one.env)
        assert done.status == FAILED and "needs the directory" in done.errors


def seconds_of(pair, program):
    """How long node 0 needs for it, with a connection to node 1, which answers what it is sent."""
    echo = pair.start(1, [sys.executable, "-c", """
import socket
listener = socket.create_server(("10.77.0.2", 5000))
print(flush=True)
connection = listener.accept()[0]
while part := connection.recv(1 << 16):
    connection.sendall(part)
"""])
    assert echo.stdout.readline() == "\n"
    done = pair.run(0, [sys.executable, "-c", """
import socket, time
link = socket.create_connection(("10.77.0.2", 5000))
begin = time.monotonic()
%s
print(time.monotonic() - begin)
""" % program])
    assert done.errors == "", done.errors
    assert support.finish(echo).status == 0
    return float(done.output)


def is_reached(pair):
    """Whether node 1 refuses what node 0 sends to a port where nobody listens."""
    done = pair.run(0, [sys.executable, "-c", """
import socket
try:
    socket.create_connection(("10.77.0.2", 9), timeout=1)
except ConnectionRefusedError:
    print("refused")
except OSError:
    print("nothing")
"""])
    assert done.output in ("refused\n", "nothing\n"), done.errors
    return done.output == "refused\n"


def test_nodes_are_as_far_apart_as_they_are_said_to_be():
    """What tests/e2e/nodes.py promises to others."""
    ask = "link.sendall(b'x'); assert link.recv(1) == b'x'"
    send = ("import threading; threading.Thread(target=link.sendall, args=(bytes(1000000),)).start()\n"
            "left = 1000000\nwhile left: left -= len(link.recv(left))")
    with nodes.Nodes(2, delays=True) as pair:
        pair.shape(delay_ms=40)
        assert seconds_of(pair, ask) >= 0.08
        pair.shape(0, rate_mbit=20)
        pair.shape(1)
        # What is sent at once may be a quarter of it.
        assert seconds_of(pair, send) >= 0.3 * 0.75
        pair.shape(loss_percent=100)
        assert not is_reached(pair)
        pair.shape()
        wait_for(lambda: is_reached(pair), "an answer")
        pair.cut(1)
        assert not is_reached(pair)
        pair.mend(1)
        wait_for(lambda: is_reached(pair), "an answer")
    with nodes.Nodes(2) as pair:
        pair.shape(0, rate_mbit=20)
        assert seconds_of(pair, send) >= 0.3 * 0.75


# ---- who may ----------------------------------------------------------------------------------


def test_another_secret_is_refused():
    with Cluster(2) as two:
        two.up_all()
        mine = os.path.join(two.nodes.folder, "mine")
        shutil.copytree(two.directory, mine)
        write(os.path.join(mine, "secret"), "7" * 64 + "\n")
        two.await_states(0, ["refused", "refused"], directory=mine)


def test_another_certificate_is_refused():
    with Cluster(2) as two:
        two.up_all()
        mine = os.path.join(two.nodes.folder, "mine")
        os.mkdir(mine, 0o700)
        shutil.copy(two.path("secret"), mine)
        made = two.nodes.run(0, [SECRET, "make", mine, two.list, "tls"])
        assert made.status == 0, made.errors
        assert read(os.path.join(mine, "secret")) == read(two.path("secret"))
        two.await_states(0, ["certificate", "certificate"], directory=mine)
        # Who trusts the servers, and is a stranger to them.
        context = "context = ssl.create_default_context(cafile=%r)\n" % two.path("cert.pem")
        program = context + """
try:
    with context.wrap_socket(socket.create_connection(server), server_hostname=server[0]) as link:
        link.sendall(b"version\\r\\n")
        print(link.recv(100))
except (ssl.SSLError, ConnectionError) as error:
    print("refused")
"""
        assert talk(0, two, program) == "refused\n"
        chain = "context.load_cert_chain(%r, %r)\n" % (two.path("cert.pem"), two.path("key.pem"))
        known = program.replace("\ntry", chain + "\ntry", 1)
        assert "CLIENT_ERROR unauthenticated" in talk(0, two, known)


def test_without_tls_nothing_is_told():
    with Cluster(2) as two:
        two.up_all()
        program = """
with socket.create_connection(server) as link:
    link.sendall(b"stats\\r\\nversion\\r\\n")
    found = b""
    try:
        while part := link.recv(4096):
            found += part
    except ConnectionError:
        pass
print(b"STAT" in found or b"VERSION" in found)
"""
        assert talk(0, two, program) == "False\n"
        mine = os.path.join(two.nodes.folder, "mine")
        shutil.copytree(two.directory, mine)
        write(os.path.join(mine, "cluster.conf"), "tls = off\n")
        assert "up" not in two.states(0, directory=mine)


def test_no_tls_is_said_once_for_all():
    with Cluster(2) as two:
        said = two.expect(0, "up: .*, without TLS\n", "up", "--nodes", two.list, "--no-tls")
        assert said and read(two.path("cluster.conf")) == "tls = off\n"
        two.expect(1, "up: .*, without TLS\n", "up", "--nodes", two.list)
        assert two.await_states(0, ["up", "up"])["tls"] is False
        assert not os.path.exists(two.path("key.pem"))
        mine = os.path.join(two.nodes.folder, "mine")
        shutil.copytree(two.directory, mine)
        write(os.path.join(mine, "secret"), "7" * 64 + "\n")
        two.await_states(0, ["refused", "refused"], directory=mine)
    with Cluster(1) as one:
        one.up(0, "--nodes", one.list)
        one.refuse(0, "tsrun: this cluster has TLS, so --no-tls cannot be\nhint: write tls = off into "
                   "%s/cluster.conf, on all nodes\n" % one.directory, "up", "--nodes", one.list,
                   "--no-tls")


def test_another_user_reads_nothing():
    with Cluster(1) as one:
        process = one.up(0, "--nodes", one.list)
        tokens = one.runtime(0, "*.tokens")
        assert len(tokens) == 1
        for path in [one.path("secret"), one.path("key.pem"), one.path("nodes"), *tokens]:
            done = one.nodes.run(0, ["cat", path], user=STRANGER)
            assert done.status == 1 and done.output == "" and "Permission denied" in done.errors, path
        # Nor if the directory is opened by mistake.
        for path in (os.path.dirname(one.directory), one.directory):
            os.chmod(path, 0o755)
        for name in ("secret", "key.pem", "cert.pem", "nodes"):
            done = one.nodes.run(0, ["cat", one.path(name)], user=STRANGER)
            assert done.status == 1 and "Permission denied" in done.errors, name
        os.chmod(one.directory, 0o700)
        done = one.tsrun(0, "status", user=STRANGER)
        assert done.status == FAILED and "Permission denied" in done.errors, done.errors
        done = one.nodes.run(0, ["cat", "/proc/%d/environ" % process], user=STRANGER)
        assert done.status == 1
        assert all(stat.S_IMODE(os.stat(path).st_mode) == 0o600 for path in glob.glob(one.path("*")))


def test_a_directory_of_another_user_is_not_used():
    with Cluster(1) as one:
        one.up(0, "--nodes", one.list)
        one.expect(0, "down: .*\n", "down")
        os.chown(one.directory, STRANGER, STRANGER)
        for words in (["up"], ["up", "--nodes", one.list], ["status"]):
            one.refuse(0, "tsrun: %s: belongs to another user\n" % one.directory, *words)


def secrets_of(cluster):
    """What must be nowhere: the secret, the token, and the body of the key."""
    tokens = cluster.nodes.run(0, ["cat", *cluster.runtime(0, "*.tokens")]).output
    assert re.fullmatch("job:[0-9a-f]{64}\n", tokens), tokens
    key = read(cluster.path("key.pem")).splitlines()[1]
    assert len(key) == 64
    return [read(cluster.path("secret")).strip(), tokens.strip()[4:], key]


def test_no_secret_is_in_a_command_line_or_environment():
    if not shutil.which("strace"):
        raise support.Skip("strace", "needs strace, to see what is executed")
    with Cluster(2) as two:
        logs, traced = [], []
        # The first one is watched for as long as the server lives.
        for words in (["up", "--nodes", two.list], ["status"], ["up"]):
            logs.append(os.path.join(two.nodes.folder, "log%d" % len(logs)))
            traced.append(two.nodes.start(0, [
                "strace", "-f", "-v", "-s", "100000", "-e", "trace=execve", "-o", logs[-1],
                *two.words(*words)], two.env))
            assert traced[-1].stdout.readline().startswith(("up", "0 of 2", "1 of 2"))
        texts = list(map(read, logs))
        for what in ("tsshim-secret\", \"make", "tsshim-secret\", \"tokens", "tsshim-secret\", \"look",
                     "memcached\", \"-l"):
            assert any(what in text for text in texts), what
        servers = [process for process in two.nodes.processes(0)
                   if read("/proc/%d/comm" % process) == "memcached\n"]
        assert len(servers) == 1
        texts += [read("/proc/%d/%s" % (servers[0], name)) for name in ("cmdline", "environ")]
        for secret in secrets_of(two):
            assert all(secret not in text for text in texts)
        two.expect(0, "down: .*\n", "down")
        assert [support.finish(process).status for process in traced] == [0, 1, 0]


# ---- what is wrong ----------------------------------------------------------------------------


def rewrite(cluster, number, **fields):
    """Change lines of the record of that node's server."""
    record, = cluster.runtime(number, "*.record")
    text = cluster.nodes.run(number, ["cat", record]).output
    for name, value in fields.items():
        text, count = re.subn("(?m)^%s .*$" % name, "%s %s" % (name, value), text)
        assert count == 1
    # Not through a command line: as tsrun does, with a file.
    copy = write(os.path.join(cluster.nodes.folder, "record"), text)
    assert cluster.nodes.run(number, ["cp", copy, record]).status == 0


def process_id(process):
    """As ts_process_id() has it."""
    return int(read("/proc/%d/stat" % process).rpartition(") ")[2].split()[19]) << 24 | process


@contextlib.contextmanager
def bystander(command):
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_record_of_another_process_ends_nobody():
    with Cluster(1) as one, bystander(["sleep", "1000"]) as sleeper, bystander(
            ["memcached", "-u", "root", "-l", "127.0.0.1", "-p", "0", "-s",
             os.path.join(one.nodes.folder, "socket")]) as other:
        wait_for(lambda: read("/proc/%d/comm" % other.pid) == "memcached\n", "memcached is executed")
        boot = read("/proc/sys/kernel/random/boot_id").strip()
        server = one.up(0, "--nodes", one.list)
        own = process_id(server)
        cases = {
            "the number is a younger process's": {"process": (own & ~0xffffff) | sleeper.pid},
            "it is no memcached": {"process": process_id(sleeper.pid)},
            "it is another memcached": {"process": process_id(other.pid)},
            "it is of another boot": {"process": own, "boot": "x" + boot[1:]},
            "init": {"process": process_id(1)},
        }
        for what, fields in cases.items():
            rewrite(one, 0, **{"boot": boot, **fields})
            saved = one.nodes.run(0, ["cat", *one.runtime(0, "*.record")]).output
            assert one.status(0)["process"] is None, what
            one.expect(0, "not up: .*\n", "down")
            assert sleeper.poll() is None and other.poll() is None and not is_gone(server), what
            assert one.runtime(0) == [], what
            # The server still has its port, so another one cannot begin, and ends nobody either.
            done = one.tsrun(0, "up")
            assert done.status == FAILED and "Address already in use" in done.errors, done.errors
            record = os.path.join(one.nodes.folder, "saved")
            write(record, saved)
            name = "/run/user/0/tsshim/server.%016x.record" % fnv(one.directory)
            assert one.nodes.run(0, ["cp", record, name]).status == 0
        assert sleeper.poll() is None and other.poll() is None and not is_gone(server)


def fnv(text):
    number = 14695981039346656037
    for byte in os.fsencode(text):
        number = (number ^ byte) * 1099511628211 & (1 << 64) - 1
    return number


def test_a_damaged_directory_is_named_with_file_and_line():
    with Cluster(1) as one:
        one.up(0, "--nodes", one.list)
        one.expect(0, "down: .*\n", "down")
        good = read(one.path("nodes"))
        cases = [
            ("nodes", "# list\n10.77.0.1\n", 0o600, "2: no port: a line is HOST:PORT"),
            ("nodes", "10.77.0.1:1\n10.77.0.1:1\n", 0o600, "2: the same server twice"),
            ("nodes", "", 0o600, " no server"),
            ("nodes", good, 0o622, " others may write it"),
            ("cluster.conf", "tls = on\n\ntls = of\n", 0o600, "3: tls is on or off"),
            ("cluster.conf", "memory = a lot\n", 0o600, "1: memory is a size such as 64G"),
            ("secret", "5" * 64 + "\n", 0o640, " others may read or write it"),
            ("key.pem", read(one.path("key.pem")), 0o604, " others may read or write it"),
        ]
        for name, text, mode, message in cases:
            kept = os.path.exists(one.path(name)) and read(one.path(name))
            write(one.path(name), text, mode)
            for words in (["up"], ["status"]):
                one.refuse(0, "tsrun: %s:%s\n" % (one.path(name), message), *words)
            os.unlink(one.path(name))
            if kept:
                write(one.path(name), kept)
        os.chmod(one.directory, 0o750)
        for words in (["up"], ["up", "--nodes", one.list], ["status"]):
            one.refuse(0, "tsrun: %s: others may read or write it\n" % one.directory, *words)
        os.chmod(one.directory, 0o700)
        write(one.path("secret"), "5" * 63 + "\n")
        one.refuse(0, "tsrun: %s: Invalid argument\n" % one.path("secret"), "up")
        os.unlink(one.path("secret"))
        one.refuse(0, "tsrun: %s: No such file or directory\n" % one.path("secret"), "up")
        # With a list it makes what is missing.
        one.up(0, "--nodes", one.list)
        one.await_states(0, ["up"])


def test_a_bad_list_makes_nothing():
    with Cluster(1) as one:
        write(one.list, "10.77.0.1:11400\nnode 2\n")
        one.refuse(0, "tsrun: %s:2: behind HOST:PORT only weight=N may stand\n" % one.list, "up",
                   "--nodes", one.list)
        one.refuse(0, "tsrun: /nowhere: No such file or directory\n", "up", "--nodes", "/nowhere")
        assert not os.path.exists(one.directory)
        one.refuse(0, "tsrun: %s: No such file or directory\nhint: name the nodes and it is made: "
                   "--nodes FILE, or --nodes auto in a job of Slurm\n" % one.directory, "up")


def test_which_of_them_is_this_node():
    with Cluster(2, ["10.77.0.1", "10.77.0.9"]) as two:
        two.up(0, "--nodes", two.list)
        two.refuse(1, "tsrun: no server of %s/nodes is this node\nhint: say which with --self HOST, or "
                   "write this node's address into the list\n" % two.directory, "up")
        two.refuse(1, "tsrun: %s/nodes has no server 'node2'\n" % two.directory, "up", "--self", "node2")
        two.refuse(1, "tsrun: '10.77.0.9' has no address of this node\n", "up", "--self", "10.77.0.9")
    with Cluster(2, ["127.0.0.1", "10.77.0.2"]) as two:
        two.refuse(0, "tsrun: '127.0.0.1' is a loopback address on this node, which no other node "
                   "reaches\nhint: write addresses instead of names into the list, or mend /etc/hosts\n",
                   "up", "--nodes", two.list)
        two.up(0, "--self", "127.0.0.1")
    with Cluster(1) as one:
        write(one.list, "10.77.0.1:11400\n10.77.0.1:11401\n")
        one.refuse(0, "tsrun: several servers of %s/nodes are this node\nhint: say which with --self "
                   "HOST:PORT\n" % one.directory, "up", "--nodes", one.list)
        one.up(0, "--self", "10.77.0.1:11401")
        one.await_states(0, ["down", "up"])
        one.expect(0, "up already: 10.77.0.1:11401.*\n", "up")


def test_a_port_that_another_has():
    with Cluster(1) as one:
        program = ("import socket; s = socket.create_server(('10.77.0.1', 11400)); "
                   "print(flush=True); s.accept()[0].recv(1 << 16); input()")
        other = one.nodes.start(0, [sys.executable, "-c", program])
        assert other.stdout.readline() == "\n"
        done = one.tsrun(0, "up", "--nodes", one.list)
        assert done.status == FAILED and "Address already in use" in done.errors, done.errors
        assert one.runtime(0) == []
        assert one.states(0)[0] in ("certificate", "silent")
        support.signal_job(other, signal.SIGKILL)
        other.communicate()
        one.up(0)


def test_what_answers_is_no_memcached():
    with Cluster(1) as one:
        one.expect(0, "up: .*\n", "up", "--nodes", one.list, "--no-tls")
        one.expect(0, "down: .*\n", "down")
        program = ("import socket; s = socket.create_server(('10.77.0.1', 11400)); print(flush=True)\n"
                   "while True:\n    c = s.accept()[0]; c.recv(4096); "
                   "c.sendall(b'HTTP/1.1 400 Bad Request\\r\\n\\r\\n')")
        other = one.nodes.start(0, [sys.executable, "-c", program])
        assert other.stdout.readline() == "\n"
        one.await_states(0, ["strange"])
        support.signal_job(other, signal.SIGKILL)
        other.communicate()


def test_unknown_words_and_options():
    directory = ["--dir", "/nowhere"]
    cases = [
        (["upp", *directory], "tsrun: tsrun cluster has no 'upp'\nhint: did you mean 'up'?\n"),
        (["restart", *directory], "tsrun: tsrun cluster has no 'restart'\n"
         "hint: there are up, down and status\n"),
        (directory, "tsrun: tsrun cluster needs a word: up, down or status\n"),
        (["up", "down"], "tsrun: tsrun cluster up takes no argument 'down'\n"),
        (["down", "--nodes", "x"], "tsrun: '--nodes' does not belong to `tsrun cluster down`\n"),
        (["up", "--json"], "tsrun: '--json' does not belong to `tsrun cluster up`\n"),
        (["up", "--node", "x"], "tsrun: unknown option '--node' of tsrun cluster\n"
         "hint: did you mean '--nodes'?\n"),
        (["up", *directory, "--memory", "much"], "tsrun: option '--memory' has a bad value 'much'\n"
         "hint: it must be a size such as 64G\n"),
    ]
    for words, errors in cases:
        done = support.run([support.TSRUN, "cluster", *words])
        assert (done.status, done.output, done.errors) == (FAILED, "", errors), (words, done.errors)


def test_no_runtime_directory_of_another_user_is_used():
    """Who takes our name in /tmp keeps us from starting, and gets nothing."""
    with Cluster(1) as one:
        place = "/run/user/0"
        script = ("mount -t tmpfs -o mode=1777 tmpfs /tmp && mkdir -m 700 /tmp/tsshim.0 && "
                  "chown %d /tmp/tsshim.0 && mount -t tmpfs -o mode=755 tmpfs /run && "
                  "mkdir -p -m 755 %s && exec \"$@\"" % (STRANGER, place))
        # A folder that the mount does not hide.
        home = os.path.join("/var/tmp", os.path.basename(one.nodes.folder))
        os.mkdir(home, 0o700)
        try:
            shutil.copy(one.list, home)
            done = one.nodes.run(0, ["unshare", "-m", "sh", "-euc", script, "sh", support.TSRUN,
                                     "cluster", "up", "--dir", os.path.join(home, "cluster"), "--nodes",
                                     os.path.join(home, "list")], one.env)
            assert done.status == FAILED and "No such file or directory" in done.errors, done.errors
            assert one.nodes.processes(0) == []
        finally:
            shutil.rmtree(home)


support.main(support.functions(globals()))
