# SPDX-License-Identifier: MIT
"""
`tsrun cluster` with real memcached servers on several nodes, which are network namespaces: what
it makes, and what becomes of it.
"""

import glob
import json
import os
import re
import shutil
import signal
import stat
import sys
import tempfile

import nodes
import support
from cluster_servers import FAILED, PORT, SECRET, is_gone, read, wait_for, write


def test_four_nodes_at_once_make_one_cluster(four):
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


def test_status_for_people(two):
    two.up(0, "--nodes", two.list, "--memory", "128M")
    done = wait_for(lambda: (one := two.tsrun(1, "status")).output[0] == "1" and one, "an answer")
    assert (done.status, done.errors) == (1, "")
    assert done.output == (
        "1 of 2 servers are up; * is this node\n"
        "  10.77.0.1:11400 up, 0 bytes of 128.0 MiB, 0 items, hits n/a\n"
        "  10.77.0.2:11400 no server there\n"), done.output


def test_names_and_addresses_of_both_kinds(three):
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


def test_a_certificate_that_does_not_fit_has_a_successor(two):
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


def test_up_again_changes_nothing(two):
    first = two.up_all()
    before = {path: (read(path), os.stat(path).st_ino) for path in glob.glob(two.path("*"))}
    for words in ([], ["--nodes", two.list]):
        again = two.expect(0, r"up already: 10.77.0.1:11400, process (\d+)\n", "up", *words)
        assert int(again.group(1)) == first[0]
    assert {path: (read(path), os.stat(path).st_ino)
            for path in glob.glob(two.path("*"))} == before
    assert two.nodes.processes(0) == [first[0]]


def test_two_at_once_on_one_node_start_one_server(one):
    started = [one.nodes.start(0, one.words("up", "--nodes", one.list), one.env)
               for _ in range(4)]
    done = [support.finish(process) for process in started]
    assert [(outcome.status, outcome.errors) for outcome in done] == [(0, "")] * 4
    assert sorted(outcome.output.split(":")[0] for outcome in done) == ["up"] + ["up already"] * 3
    assert len(one.nodes.processes(0)) == 1


def test_down_ends_its_server_and_leaves_the_directory(four):
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


def test_down_when_another_node_has_removed_the_directory(one):
    process = one.up(0, "--nodes", one.list)
    shutil.rmtree(one.directory)
    one.expect(0, "down: .*, process %d\n" % process, "down")
    assert one.runtime(0) == []


def test_a_node_joins_late(three):
    three.up(0, "--nodes", three.list)
    three.up(1)
    three.await_states(0, ["up", "up", "down"])
    three.up(2)
    for number in range(3):
        three.await_states(number, ["up"] * 3)


def test_a_killed_server_is_told_and_started_anew(two):
    processes = two.up_all()
    os.kill(processes[0], signal.SIGKILL)
    wait_for(lambda: is_gone(processes[0]), "the server is gone")
    two.await_states(1, ["down", "up"])
    found = two.await_states(0, ["down", "up"])
    assert found["process"] is None
    assert [one["here"] for one in found["nodes"]] == [False, False]
    assert two.up(0) != processes[0]
    two.await_states(1, ["up", "up"])


def test_gc_removes_what_a_killed_server_left(two):
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


def test_doctor_looks_at_this_nodes_part(two):
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


def test_what_is_silent_or_cut_off(three):
    processes = three.up_all()
    os.kill(processes[1], signal.SIGSTOP)
    three.nodes.cut(2)
    found = wait_for(lambda: (states := three.states(0))[0] == "up" and states, "an answer")
    assert found[1] == "silent" and found[2] in ("silent", "unreachable"), found
    os.kill(processes[1], signal.SIGCONT)
    three.nodes.mend(2)
    three.await_states(0, ["up"] * 3)


def test_a_new_list_brings_a_new_certificate_and_keeps_the_secret(three):
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


def test_secrets_are_exchanged_without_a_new_server(two):
    processes = two.up_all()
    old, new = read(two.path("secret")), "f" * 64 + "\n"
    for text in (old + new, new + old, new):
        write(two.path("secret"), text)
        for number in range(2):
            found = two.expect(number, r"up already: .*, process (\d+), with new tokens\n", "up")
            assert int(found.group(1)) == processes[number]
        # It reads them a moment later.
        two.await_states(0, ["up", "up"])
    # The old token is forgotten.
    two.await_states(0, ["refused", "refused"], directory=two.copy(secret=old))


def test_memory_and_storage(two):
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


def test_slurms_nodes(two):
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


def test_the_directory_of_the_environment(one):
    one.up(0, "--nodes", one.list)
    done = one.nodes.run(0, [support.TSRUN, "cluster", "down"],
                         {**one.env, "TSSHIM_CLUSTER": one.directory})
    assert done.status == 0 and done.output.startswith("down: "), done.errors
    done = one.nodes.run(0, [support.TSRUN, "cluster", "down"], one.env)
    assert done.status == FAILED and "needs the directory" in done.errors


ECHO = """
import socket
listener = socket.create_server(("10.77.0.2", 5000))
print(flush=True)
connection = listener.accept()[0]
while part := connection.recv(1 << 16):
    connection.sendall(part)
"""
TIMED = """
import socket, threading, time
link = socket.create_connection(("10.77.0.2", 5000))
begin = time.monotonic()
%s
print(time.monotonic() - begin)
"""
ASK = "link.sendall(b'x'); assert link.recv(1) == b'x'"
SEND = """
threading.Thread(target=link.sendall, args=(bytes(1000000),)).start()
left = 1000000
while left: left -= len(link.recv(left))
"""


def seconds_of(pair, program):
    """How long node 0 needs for it, with a connection to node 1, which answers what it is sent."""
    echo = pair.start(1, [sys.executable, "-c", ECHO])
    assert echo.stdout.readline() == "\n"
    done = pair.run(0, [sys.executable, "-c", TIMED % program])
    assert done.errors == "", done.errors
    assert support.finish(echo).status == 0
    return float(done.output)


def test_nodes_are_as_far_apart_as_they_are_said_to_be():
    """What tests/e2e/nodes.py promises to others."""
    with nodes.Nodes(2, delays=True) as pair:
        pair.shape(delay_ms=40)
        assert seconds_of(pair, ASK) >= 0.08
        pair.shape(0, rate_mbit=20)
        pair.shape(1)
        # What is sent at once may be a quarter of it.
        assert seconds_of(pair, SEND) >= 0.3 * 0.75
    with nodes.Nodes(2) as pair:
        pair.shape(0, rate_mbit=20)
        assert seconds_of(pair, SEND) >= 0.3 * 0.75
