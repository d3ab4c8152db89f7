# SPDX-License-Identifier: MIT
"""
`tsrun cluster` when something is wrong: records, directories, lists, ports, words.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys

import support
from cluster_servers import FAILED, STRANGER, Cluster, is_gone, read, wait_for, write


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
        own = support.process_id(server)
        cases = {
            "the number is a younger process's": {"process": (own & ~0xffffff) | sleeper.pid},
            "it is no memcached": {"process": support.process_id(sleeper.pid)},
            "it is another memcached": {"process": support.process_id(other.pid)},
            "it is of another boot": {"process": own, "boot": "x" + boot[1:]},
            "init": {"process": support.process_id(1)},
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


def test_a_damaged_directory_is_named_with_file_and_line(one):
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
        for word in ("up", "status"):
            one.refuse(0, "tsrun: %s:%s\n" % (one.path(name), message), word)
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


def test_a_bad_list_makes_nothing(one):
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


@contextlib.contextmanager
def listening(one, port, body):
    """What stands in the place of a server: a program with that port that does @body with `s`."""
    program = "import socket; s = socket.create_server(('10.77.0.1', %d)); print(flush=True)\n%s" % (port, body)
    other = one.nodes.start(0, [sys.executable, "-c", program])
    assert other.stdout.readline() == "\n"
    yield
    support.signal_job(other, signal.SIGKILL)
    other.communicate()


SILENT = "s.accept()[0].recv(1 << 16); input()"
STRANGE = ("while True:\n    c = s.accept()[0]; c.recv(1); c.sendall(b'HTTP/1.1 400 Bad Request\\r\\n\\r\\n')\n"
           "    c.recv(1 << 16)")


def test_a_port_that_another_has(one):
    with listening(one, 11400, SILENT):
        done = one.tsrun(0, "up", "--nodes", one.list)
        assert done.status == FAILED and "Address already in use" in done.errors, done.errors
        assert one.runtime(0) == []
        assert one.states(0)[0] in ("certificate", "silent")
    one.up(0)


def test_what_answers_is_no_memcached(one):
    one.expect(0, "up: .*\n", "up", "--nodes", one.list, "--no-tls")
    one.expect(0, "down: .*\n", "down")
    with listening(one, 11400, STRANGE):
        one.await_states(0, ["strange"])


def test_each_state_in_words(one):
    one.up(0, "--nodes", one.list, "--no-tls")
    tokens = write(os.path.join(one.nodes.folder, "tokens"), "job:%s\n" % ("5" * 64))
    write(one.path("nodes"), read(one.path("nodes")) + "".join(
        "%s\n" % server for server in ("10.77.0.1:11401", "10.77.0.1:11402", "10.77.0.1:11403", "10.77.0.1:11404",
                                       "192.0.2.1:11400", "nowhere.invalid:11400")))
    with listening(one, 11401, "__import__('time').sleep(1000)"), listening(one, 11402, STRANGE):
        refuses = one.nodes.start(0, ["memcached", "-u", "root", "-l", "10.77.0.1", "-p", "11403", "-U", "0", "-Y", tokens])
        one.await_states(0, ["up", "silent", "strange", "refused", "down", "unreachable", "unknown"])
        text = one.tsrun(0, "status").output
        for words in ("does not answer", "answers what no memcached answers", "refuses our token: it has another secret",
                      "no server there", "the network does not reach it", "the name has no address here"):
            assert text.count(words) == 1, (words, text)
        support.signal_job(refuses, signal.SIGKILL)
        refuses.communicate()
    write(one.path("nodes"), "10.77.0.1:11400\n")
    one.await_states(0, ["up"])
    assert "does not" not in one.tsrun(0, "status").output


def test_a_memcached_that_lacks_something():
    whole = "--listen --auth-file --enable-ssl ssl_ca_cert ext_path"
    with Cluster(1) as one:
        place = os.path.join(one.nodes.folder, "bin")
        os.mkdir(place)
        program = os.path.join(place, "memcached")
        env = {**one.env, "PATH": place + ":" + one.env["PATH"]}
        store = "%s/store:1G" % one.nodes.folder
        for lacks, words, errors in (
                ("--listen", [], "tsrun: memcached: Protocol error\nhint: install it, as `apt install memcached` does; "
                 "its service is not needed\n"),
                ("--enable-ssl", [], "tsrun: %s was built without TLS (-Z)\n" % program),
                ("--auth-file", [], "tsrun: %s was built without authentication (-Y)\n" % program),
                ("ext_path", ["--nvme", store], "tsrun: %s was built without extstore (ext_path), which --nvme needs\n" % program),
                ("nothing", [], "tsrun: memcached has ended without a word\n"),
                ("ext_path", [], "tsrun: memcached has ended without a word\n")):
            write(program, "#!/bin/sh\n[ \"$1\" != -h ] || echo '%s'\n" % whole.replace(lacks, ""), 0o755)
            one.refuse(0, errors, "up", "--nodes", one.list, "--memory", "64M", *words, env=env)


def test_programs_that_end_badly(one):
    """A tsrun whose tsshim-secret is another program."""
    one.up(0, "--nodes", one.list)
    tree = os.path.join(one.nodes.folder, "tree")
    os.makedirs(os.path.join(tree, "shim", "tsrun"))
    program = shutil.copy(support.TSRUN, os.path.join(tree, "shim", "tsrun"))
    shutil.copy(support.LIBRARY, tree)
    secret = write(os.path.join(tree, "tsshim-secret"), "#!/bin/sh\nexit 200\n", 0o755)
    shutil.copy(secret, os.path.join(tree, "tsshim-peer"))
    env = {**one.env, "TSSHIM_CLUSTER": one.directory, "TSSHIM_STAGE": "auto", "TSSHIM_DATASET": "d=/"}
    doctor = one.nodes.run(0, [program, "doctor"], env).output
    assert "warn 19  tsshim-secret has ended badly\n         fix: tsrun cluster status --dir " in doctor, doctor
    assert "ended badly" not in one.nodes.run(0, [support.TSRUN, "doctor"], env).output
    done = one.nodes.run(0, [program, "cluster", "up", "--nodes", one.list], env)
    assert (done.status, done.errors) == (FAILED, "tsrun: %s: has ended badly\n" % secret), done.errors
    write(secret, "#!/bin/sh\necho nonsense\n", 0o755)
    done = one.nodes.run(0, [program, "cluster", "status"], env)
    assert (done.status, done.errors) == (FAILED, "tsrun: tsshim-secret: Protocol error\n"), done.errors


def test_what_cannot_be_asked_for(one):
    # Slurm may be installed here; the test itself needs but one program.
    os.symlink(shutil.which("nsenter"), os.path.join(one.nodes.folder, "nsenter"))
    one.refuse(0, "tsrun: scontrol of Slurm was not found\n", "up", "--nodes", "auto", env={
        **one.env, "SLURM_JOB_ID": "4711", "SLURM_JOB_NODELIST": "node[1-2]", "PATH": one.nodes.folder})
    comma = os.path.join(one.nodes.folder, "a,b")
    one.refuse(0, "tsrun: the directory of a cluster must have no comma in its name: %s/cert.pem\n" % comma,
               "up", "--nodes", one.list, directory=comma)
    one.refuse(0, "tsrun: 1.0 MiB of storage is too little for a server\nhint: say --nvme /store:512M or more\n",
               "up", "--nodes", one.list, "--nvme", "/store:1M")
    one.refuse(0, "tsrun: --no-tls is for a cluster that is being made\nhint: write tls = off into "
               "%s/cluster.conf, on all nodes\n" % one.directory, "up", "--no-tls")
    one.up(0, "--nvme", os.path.join(one.nodes.folder, "store:512M"))
    os.mkdir(one.path("cluster.conf"))
    one.refuse(0, "tsrun: %s: no regular file\n" % one.path("cluster.conf"), "status")


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


def test_no_runtime_directory_of_another_user_is_used(one):
    """Who takes our name in /tmp keeps us from starting, and gets nothing."""
    place = "/run/user/0"
    # A folder that the mount does not hide, with what is tested, which may lie in /tmp.
    home = os.path.join("/var/tmp", os.path.basename(one.nodes.folder))
    build = os.path.join(home, "build")
    script = ("mount --bind \"$0\" \"$1\" && shift && mount -t tmpfs -o mode=1777 tmpfs /tmp && "
              "mkdir -m 700 /tmp/tsshim.0 && chown %d /tmp/tsshim.0 && "
              "mount -t tmpfs -o mode=755 tmpfs /run && mkdir -p -m 755 %s && exec \"$@\""
              % (STRANGER, place))
    os.makedirs(build, 0o700)
    try:
        shutil.copy(one.list, home)
        done = one.nodes.run(0, ["unshare", "-m", "sh", "-euc", script, support.BUILD, build,
                                 os.path.join(build, os.path.relpath(support.TSRUN, support.BUILD)),
                                 "cluster", "up", "--dir", os.path.join(home, "cluster"), "--nodes",
                                 os.path.join(home, "list")], one.env)
        assert done.status == FAILED and "No such file or directory" in done.errors, done.errors
        assert one.nodes.processes(0) == []
    finally:
        shutil.rmtree(home)
