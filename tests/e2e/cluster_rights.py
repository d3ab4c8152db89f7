# SPDX-License-Identifier: MIT
"""
Who may use the servers of `tsrun cluster`, and what nobody sees of their secrets.
"""

import glob
import os
import re
import shutil
import stat
import tempfile

import paths
import support
from cluster_servers import FAILED, SECRET, STRANGER, Cluster, read, talk


def test_another_secret_is_refused(two):
    two.up_all()
    two.await_states(0, ["refused", "refused"], directory=two.copy(secret="7" * 64 + "\n"))


def test_another_certificate_is_refused(two):
    two.up_all()
    mine = os.path.join(two.nodes.folder, "mine")
    os.mkdir(mine, 0o700)
    shutil.copy(two.path("secret"), mine)
    made = two.nodes.run(0, [SECRET, "make", mine, two.list, "tls"])
    assert made.status == 0, made.errors
    assert read(os.path.join(mine, "secret")) == read(two.path("secret"))
    two.await_states(0, ["certificate", "certificate"], directory=mine)
    assert "has another certificate, or speaks no TLS" in two.tsrun(0, "status", directory=mine).output
    # Who trusts the servers, and is a stranger to them.
    program = "context = ssl.create_default_context(cafile=%r)\n" % two.path("cert.pem") + """
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


def test_without_tls_nothing_is_told(two):
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
    assert "up" not in two.states(0, directory=two.copy(cluster_conf="tls = off\n"))


def test_no_tls_is_said_once_for_all(two):
    said = two.expect(0, "up: .*, without TLS\n", "up", "--nodes", two.list, "--no-tls")
    assert said and read(two.path("cluster.conf")) == "tls = off\n"
    two.expect(1, "up: .*, without TLS\n", "up", "--nodes", two.list)
    assert two.await_states(0, ["up", "up"])["tls"] is False
    assert not os.path.exists(two.path("key.pem"))
    two.await_states(0, ["refused", "refused"], directory=two.copy(secret="7" * 64 + "\n"))
    with Cluster(1) as one:
        one.up(0, "--nodes", one.list)
        one.refuse(0, "tsrun: this cluster has TLS, so --no-tls cannot be\nhint: write tls = off into "
                   "%s/cluster.conf, on all nodes\n" % one.directory, "up", "--nodes", one.list,
                   "--no-tls")


def test_another_user_reads_nothing(one):
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
    with tempfile.TemporaryDirectory() as place:
        words = [paths.for_others(support.BUILD, place), *one.words("status")[1:]]
        done = one.nodes.run(0, words, one.env, user=STRANGER)
    assert done.status == FAILED and "Permission denied" in done.errors, done.errors
    done = one.nodes.run(0, ["cat", "/proc/%d/environ" % process], user=STRANGER)
    assert done.status == 1
    assert all(stat.S_IMODE(os.stat(path).st_mode) == 0o600 for path in glob.glob(one.path("*")))


def test_a_directory_of_another_user_is_not_used(one):
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


def test_no_secret_is_in_a_command_line_or_environment(two):
    if not shutil.which("strace"):
        raise support.Skip("strace", "needs strace, to see what is executed")
    logs, traced, said = [], [], []
    # The first one is watched for as long as the server lives.
    for words in (["up", "--nodes", two.list], ["status"], ["up"]):
        logs.append(os.path.join(two.nodes.folder, "log%d" % len(logs)))
        traced.append(two.nodes.start(0, [
            "strace", "-f", "-v", "-s", "100000", "-e", "trace=execve", "-o", logs[-1],
            *two.words(*words)], two.env))
        said.append(traced[-1].stdout.readline())
        assert said[-1].startswith(("up", "0 of 2", "1 of 2"))
    texts = list(map(read, logs))
    for what in ("tsshim-secret\", \"make", "tsshim-secret\", \"tokens", "tsshim-secret\", \"look",
                 "memcached\", \"-l"):
        assert any(what in text for text in texts), what
    server = re.search(r"process (\d+)", said[0]).group(1)
    assert read("/proc/%s/comm" % server) == "memcached\n"
    texts += [read("/proc/%s/%s" % (server, name)) for name in ("cmdline", "environ")]
    for secret in secrets_of(two):
        assert all(secret not in text for text in texts)
    two.expect(0, "down: .*\n", "down")
    assert [support.finish(process).status for process in traced] == [0, 1, 0]
