# SPDX-License-Identifier: MIT
"""tsrun doctor: what each check says here, and where what it looks at is another."""

import json
import os
import resource
import shutil
import subprocess

import scenes
import support
from tsrun_common import (BUILD, HAS_LIBELF, MEMBER, PIDS, TSRUN, Skip, compile_c, expect, mounted, needs, needs_libelf,
                          tsrun)

LIBRARY = os.path.realpath(os.path.join(BUILD, "libtsshim.so"))
PYTHON = "/usr/bin/python3"  # no script, as the one that is first in PATH may be
STATES = {"ok", "warn", "fail", "n/a"}
HOOKED = "import sys; print(any(type(f).__module__ == 'tsshim_torch' for f in sys.meta_path))"


def doctor(*command, status=None, **more):
    """{id: object} of all checks, and the exit status that belongs to them."""
    done = tsrun("doctor", "--json", *(["--", *command] if command else []), **more)
    assert done.stderr == "", done.stderr
    found = json.loads(done.stdout)
    failed = any(check["state"] == "fail" for check in found)
    assert done.returncode == (1 if failed else 0), (done.returncode, found)
    assert status is None or done.returncode == status, found
    return {check["id"]: check for check in found}


def says(check, state, *words):
    """The state of a check, and words of what it found."""
    assert check["state"] == state and all(w in check["found"] for w in words), check
    return check["fix"]


def test_every_check_is_one_line_with_its_number(directory):
    data = tsrun("doctor", "--json")
    text = tsrun("doctor")
    objects = json.loads(data.stdout)
    assert len(objects) == 20 and len({check["id"] for check in objects}) == 20
    lines = [line for line in text.stdout.splitlines() if not line.startswith(" ")]
    fixes = [line for line in text.stdout.splitlines() if line.startswith(" ")]
    assert len(lines) == len(objects)
    for number, (line, check) in enumerate(zip(lines, objects), 1):
        assert list(check) == ["id", "title", "state", "found", "fix"], check
        assert check["state"] in STATES and check["found"] and check["title"], check
        assert line[:8] == "%-4s %2d " % (line.split()[0], number), line
        # What other tests leave comes and goes.
        assert line.split()[0] == check["state"] or check["id"] == "leftovers", line
        assert (check["fix"] is None) == (check["state"] in ("ok", "n/a")), check
    assert len(fixes) == sum(line.split()[0] not in ("ok", "n/a") for line in lines)
    assert all(line.startswith("         fix: ") for line in fixes), fixes


def test_library_of_this_tsrun(directory):
    found = doctor()
    if HAS_LIBELF:
        version = tsrun("--version").stdout.split()[-1]
        says(found["library"], "ok", LIBRARY, "version %s," % version, "as tsrun")
    says(found["preload"], "ok", "ends with 0")
    says(found["preloads"], "ok", "no others")


def test_cluster_that_is_not_there(directory):
    """And where its programs are not, as in a wheel; and none at all."""
    for env in ({}, {"TSSHIM_CLUSTER": "off"}):
        says(doctor(env=env)["cluster"], "n/a", "TSSHIM_CLUSTER is off")
    place = os.path.join(directory, "none")
    found = doctor(env={"TSSHIM_CLUSTER": place}, status=1)["cluster"]
    fix = says(found, "fail", place, "No such file", "TSSHIM_STAGE is off")
    assert "tsrun cluster up --dir %s" % place in fix and "--stage auto" in fix, fix
    program, _ = installation(directory)
    found = doctor(env={"TSSHIM_CLUSTER": place}, program=program, status=1)["cluster"]
    fix = says(found, "fail", "tree/tsshim-peer: No such file", "tree/tsshim-secret: No such file")
    assert fix.startswith("wheels have no programs for other nodes"), fix
    assert not os.path.exists(place)


def installation(directory, *, library=True, python=True):
    """A tree as meson builds it, to be damaged."""
    place = os.path.join(directory, "tree", "shim", "tsrun")
    os.makedirs(place)
    shutil.copy(TSRUN, place)
    if library:
        shutil.copy(LIBRARY, os.path.join(directory, "tree"))
    if python:
        shutil.copytree(os.path.join(BUILD, "python"), os.path.join(directory, "tree", "python"))
    return os.path.join(place, "tsrun"), os.path.join(directory, "tree", "libtsshim.so")


def test_missing_library(directory):
    program, _ = installation(directory, library=False)
    found = doctor(program=program, status=1)
    assert says(found["library"], "fail", "it is not there") == "reinstall tsshim"
    says(found["preload"], "n/a", "no library")
    says(found["python"], "n/a")


def test_library_that_is_none(directory):
    program, library = installation(directory)
    support.write(library, "no library" * 100)
    found = doctor(program=program, status=1)
    says(found["library"], "fail" if HAS_LIBELF else "ok")
    says(found["preload"], "fail", "invalid ELF header")


def test_library_of_another_layout(directory):
    needs_libelf()
    program, library = installation(directory)
    data, mark = support.read(library, "rb"), b"\x08\0\0\0\x18\0\0\0\x01\0\0\0tsshim\0\0"
    assert data.count(mark) == 1
    support.overwrite(library, data.index(mark) + len(mark), (99).to_bytes(4, "little"))
    found = doctor(program=program, status=1)
    fix = says(found["library"], "fail", "has layout 99 in shared memory, tsrun has ")
    assert fix == "install library and tsrun together"
    support.overwrite(library, data.index(mark) + 8, b"\2")  # of no kind that is known
    says(doctor(program=program)["library"], "warn", "does not say of which version")


def preloaded(directory, code):
    """What doctor says of a library whose constructor is this @code."""
    program, library = installation(os.path.join(directory, str(len(os.listdir(directory)))))
    compile_c(directory, "other", "#include <signal.h>\n#include <unistd.h>\n__attribute__((constructor)) "
              "static void f(void) { %s }" % code, "-shared", "-fPIC", "-o", library)
    return doctor(program=program, status=1)["preload"]


def test_library_that_kills(directory):
    says(preloaded(directory, "raise(SIGKILL);"), "fail", "is killed by signal 9")


def test_library_that_never_lets_go(directory):
    check = preloaded(directory, "for (;;) pause();")
    assert says(check, "fail", "does not end with it").startswith("reinstall tsshim")


def test_other_preloads(directory):
    other = os.path.join(directory, "libother.so")
    compile_c(directory, "other", "int other;", "-shared", "-fPIC", "-o", other)
    found = doctor(env={"LD_PRELOAD": other + " " + os.path.join(BUILD, "libtsshim.so")})
    says(found["preloads"], "ok", other + ", which comes first", "this library, already")
    says(found["preload"], "ok")
    copy = os.path.join(directory, "libtsshim.so")
    shutil.copy(LIBRARY, copy)
    found = doctor(env={"LD_PRELOAD": copy})
    says(found["preloads"], "warn", copy, "another installation")


def test_preload_that_is_not_there(directory):
    missing = os.path.join(directory, "none.so")
    done = tsrun("doctor", "--json", env={"LD_PRELOAD": missing})
    assert done.returncode == 0 and "cannot be preloaded" in done.stderr  # ld.so's own
    found = {check["id"]: check for check in json.loads(done.stdout)}
    says(found["preloads"], "warn", missing + " is not there")
    says(found["preload"], "ok")


def test_small_shared_memory(directory):
    for size, state, words in (("64m", "warn", "the ring has 16.0 MiB instead of "),
                               ("8m", "fail", "too little for any")):
        prefix = mounted("mount -t tmpfs -o mode=1777,size=%s tmpfs /dev/shm" % size)
        check = doctor(prefix=prefix, status=1 if state == "fail" else 0)["shm_room"]
        assert "--shm-size" in says(check, state, "%s.0 MiB" % size[:-1], words)
    check = doctor(prefix=mounted("mount -t tmpfs -o mode=1777,size=64m tmpfs /dev/shm"),
                   env={"TSSHIM_RING": "16M"})["shm_room"]
    says(check, "ok", "all of its 16.0 MiB")
    says(doctor(env={"TSSHIM_RING": "0"})["shm_room"], "n/a", "size 0")
    check = doctor(env={"TSSHIM_RING": "4M"}, status=1)["shm_room"]
    assert "larger --ring" in says(check, "fail", "a ring of 4.0 MiB was asked for: too little for any")


def test_shared_memory_on_a_disk(directory):
    path = os.path.join("/var/tmp", "tsrun-doctor-%d" % os.getpid())
    os.mkdir(path)
    try:
        os.chmod(path, 0o1777)
        check = doctor(prefix=mounted("mount --bind %s /dev/shm" % path))["shm_type"]
        if subprocess.run(["stat", "-f", "-c", "%T", path], stdout=subprocess.PIPE,
                          text=True).stdout.strip() == "tmpfs":
            raise Skip("needs a directory that is not in memory")
        says(check, "warn", "/dev/shm is no tmpfs")
    finally:
        shutil.rmtree(path)  # a home in /dev/shm is in it as well


def test_rights_of_shared_memory(directory):
    mount = "mount -t tmpfs -o size=1g,mode=%s tmpfs /dev/shm"
    found = doctor(prefix=mounted(mount % "0777"))
    assert "chmod 1777" in says(found["shm_access"], "warn", "mode 0777", "not sticky")
    found = doctor(prefix=mounted(mount % "0700"))
    says(found["shm_access"], "ok", "mode 0700")
    found = doctor(prefix=mounted(mount % "1777,ro"), status=1)
    says(found["shm_access"], "fail", "Read-only file system")


def test_control_groups(directory):
    """Both versions of the controller, at the root, which is above every group."""
    if not os.path.isdir("/sys/fs/cgroup"):
        raise Skip("needs control groups")
    for limit, wanted, state, words in (
            ("max", "9223372036854771712", "ok", "no memory limit"),
            (str(1000 << 30), str(1000 << 30), "ok", "does not limit"),
            (str(100 << 30), str(100 << 30), "ok", "all of its 2.0 GiB"),
            (str(1 << 30), str(1 << 30), "warn", "instead of 2.0 GiB"),
            (str(16 << 20), str(16 << 20), "fail", "too little for any")):
        place = os.path.join(directory, "groups-" + limit)
        os.makedirs(os.path.join(place, "memory"))
        for name, text in (("memory.max", limit), ("memory.current", "0"),
                           ("memory/memory.limit_in_bytes", wanted),
                           ("memory/memory.usage_in_bytes", "0")):
            support.write(os.path.join(place, name), text + "\n")
        found = doctor(prefix=mounted("mount -t tmpfs -o size=80g tmpfs /dev/shm",
                                      "mount --bind %s /sys/fs/cgroup" % place), env={"TSSHIM_RING": "2G"})
        fix = says(found["memory_limit"], state, words)
        assert (fix is None) == (state == "ok"), fix


def limited(kind, value):
    return lambda: resource.setrlimit(kind, (value, value))


def test_limits_of_processes(directory):
    says(doctor(preexec_fn=limited(resource.RLIMIT_NOFILE, 256))["open_files"], "warn", "256 files")
    says(doctor(preexec_fn=limited(resource.RLIMIT_NOFILE, 1024))["open_files"], "ok", "1024 files")
    check = doctor(preexec_fn=limited(resource.RLIMIT_MEMLOCK, 64 << 10))["memlock"]
    says(check, "ok", "64.0 KiB may be locked")
    check = doctor(preexec_fn=limited(resource.RLIMIT_AS, 1 << 30), status=0)["size_limits"]
    assert says(check, "warn", "address space is limited to 1.0 GiB") == "ulimit -v unlimited"
    check = doctor(preexec_fn=limited(resource.RLIMIT_FSIZE, 1 << 20), status=1)["size_limits"]
    says(check, "fail", "files may have 1.0 MiB only")
    says(doctor()["size_limits"], "ok", "address space is not limited", "as large as the ring")


def test_namespaces():
    needs(*PIDS)
    found = doctor(prefix=PIDS)
    assert "--pid=host" in says(found["namespaces"], "warn", "a PID namespace of its own")
    says(found["shm_shared"], "n/a", "cannot be seen from inside a PID namespace")
    found = doctor(prefix=["unshare", "--user", "--map-current-user"])
    says(found["namespaces"], "warn", "a user namespace of its own")
    found = doctor(prefix=["unshare", "--ipc"])
    assert "the IPC namespace is not the node's" in found["shm_shared"]["found"], found["shm_shared"]
    here = doctor()
    own = os.stat("/proc/self/ns/pid").st_ino == 0xEFFFFFFC
    own = own and os.stat("/proc/self/ns/user").st_ino == 0xEFFFFFFD
    says(here["namespaces"], "ok" if own else "warn")
    # Process 1 that cannot be seen is no error.
    assert says(doctor(prefix=mounted("mount --bind /tmp /proc/1"))["shm_shared"], "n/a") is None


def test_leftovers_are_counted_and_stay(directory):
    """In a /dev/shm of its own, for other tests leave and collect theirs meanwhile."""
    script = """
mount -t tmpfs -o mode=1777,size=1g tmpfs /dev/shm
"$@" > empty
mkfifo in out
%s doctortest photos die < in > out & member=$!
exec 3> in
read line < out
"$@" > living
exec 3>&-
wait $member || true
ls /dev/shm > before
"$@" > dead
ls /dev/shm > after
%s gc > gone
"$@" > collected
echo | %s doctortest photos die > end || true
%s -c "import glob; f = open(glob.glob('/dev/shm/*.ring')[0], 'r+b'); f.seek(392); f.write(bytes([255] * 7))"
"$@" > kept
""" % (MEMBER, TSRUN, MEMBER, PYTHON)
    needs("unshare", "--mount")
    done = tsrun("doctor", "--json", prefix=["unshare", "--mount", "sh", "-ec", script, "sh"], cwd=directory)
    assert done.returncode == 0, (done.returncode, done.stderr)

    def read(name):
        return support.read(os.path.join(directory, name))

    def leftovers(name):
        check, = [c for c in json.loads(read(name)) if c["id"] == "leftovers"]
        return check

    for name in ("empty", "living", "collected"):
        assert leftovers(name)["found"] == "no memory of dead jobs is left", leftovers(name)
        assert leftovers(name)["state"] == "ok"
    check = leftovers("dead")
    assert says(check, "warn", "1 object of dead jobs", "counters of 1 group") == "tsrun gc"
    assert read("before") == read("after") and len(read("before").split()) == 2
    assert read("gone").count("removed ") == 2, read("gone")
    for name in ("empty", "living", "dead", "collected", "kept", "gone"):
        scenes.note(read(name))
    says(leftovers("kept"), "ok", "no memory of dead jobs is left; 1 more is kept (--keep)")


def test_settings(directory):
    says(doctor()["settings"], "ok", "the group is default")
    says(doctor(env={"TSSHIM_GROUP": "g7"})["settings"], "ok", "the group is g7")
    check = doctor(env={"TSSHIM_RNIG": "1G"}, status=0)["settings"]
    assert says(check, "warn", "TSSHIM_RNIG is not known") == "did you mean TSSHIM_RING?"
    check = doctor(env={"TSSHIM_SHARE": "samplex"}, status=1)["settings"]
    assert "did you mean 'samples'?" in says(check, "fail", "TSSHIM_SHARE", "'samplex'")
    check = doctor(env={"TSSHIM_RING": "lots", "TSSHIM_VERIFY": "-1"}, status=1)["settings"]
    fix = says(check, "fail", "TSSHIM_RING", "TSSHIM_VERIFY")
    assert "a size such as 512M" in fix and "from 0 to 100" in fix, fix
    for name, value in (("DISABLE", "1"), ("SHARE", "off"), ("RING", "0")):
        says(doctor(env={"TSSHIM_" + name: value})["settings"], "warn", "TSSHIM_" + name)
    result = tsrun("doctor", env={"TSSHIM_SHARE": "a\033[2Jb"})  # what is printed is printable
    assert result.returncode == 1 and "\033" not in result.stdout
    assert "'a?[2Jb'" in result.stdout, result.stdout


def test_commands_that_cannot_share(directory):
    needs_libelf()
    says(doctor(status=0)["command"], "n/a")
    text = "int main(void) { return 0; }"
    static = compile_c(directory, "static", text, "-static")
    says(doctor(static, status=1)["command"], "fail", static + " is statically linked")
    plain = compile_c(directory, "plain", text)
    says(doctor(plain, "--odd", status=0)["command"], "ok", plain)
    if os.geteuid() == 0:
        os.chown(plain, 12345, 12345)
        os.chmod(plain, 0o4755)
        says(doctor(plain, status=1)["command"], "fail", "is setuid")
    says(doctor("no-such-command", status=1)["command"], "fail", "'no-such-command' was not found")
    says(doctor(directory + "/static.c", status=1)["command"], "fail", "cannot be executed")


def test_decoders_inside_the_program(directory):
    needs_libelf()
    text = """#include <stdio.h>
int main(int argc, char **argv) {
	return printf("Not a JPEG file: starts with 0x%02x 0x%02x", argc, 1) < 0; }"""
    inside = compile_c(directory, "inside", text, "-s")
    check = doctor(inside, status=0)["command"]
    assert says(check, "warn", "it has a libjpeg inside") is not None
    says(doctor("cat")["command"], "ok")


def script(directory, name, first_line):
    path = os.path.join(directory, name)
    support.write(path, "#!%s\n" % first_line, 0o755)
    return path


def test_scripts_are_followed(directory):
    path = script(directory, "train", PYTHON)
    says(doctor(path)["command"], "ok", "a script; " + PYTHON)
    through = script(directory, "through", "/usr/bin/env -S sh -e")
    says(doctor(through)["command"], "ok", "a script; ", "/sh takes")
    missing = script(directory, "missing", "/no/such/interpreter -x")
    says(doctor(missing, status=1)["command"], "fail", "its interpreter '/no/such/interpreter'")


def hooked(*words, **env):
    """Whether the interpreter that tsrun starts has our finder."""
    result = tsrun("--", *words, "-c", HOOKED, env=env)
    expect(result, 0)
    return {"True\n": True, "False\n": False}[result.stdout]


def test_what_keeps_python_from_our_part(directory):
    """What doctor says is what happens."""
    other = directory
    support.write(other + "/sitecustomize.py", "")
    for words, env, word in (
            ([], {}, None), (["-s"], {}, None), (["-I"], {}, "-I"), (["-E"], {}, "-E"),
            (["-S"], {}, "-S"), (["-sE"], {}, "-E"), (["-W", "ignore", "-I"], {}, "-I"),
            (["-X", "dev", "-b"], {}, None),
            ([], {"PYTHONNOUSERSITE": "1"}, "PYTHONNOUSERSITE is set, which is no obstacle"),
            ([], {"PYTHONSAFEPATH": "1"}, "PYTHONSAFEPATH is set, which is no obstacle"),
            ([], {"PYTHONHOME": "/usr"}, "PYTHONHOME is set, which is no obstacle"),
            ([], {"PYTHONPATH": other}, other + "/sitecustomize.py of PYTHONPATH is run behind")):
        check = doctor(PYTHON, *words, "-c", "pass", env=env)["python"]
        assert hooked(PYTHON, *words, **env) == (check["state"] == "ok"), (words, env, check)
        assert word is None or word in check["found"], (words, env, check)
    for first_line, state in ((PYTHON + " -Es", "warn"), ("/usr/bin/env -S %s -I" % PYTHON, "warn"),
                              (PYTHON + " -s", "ok")):
        path = script(directory, "isolated", first_line)
        says(doctor(path)["python"], state, PYTHON)


def test_python_half_that_is_missing(directory):
    program, _ = installation(directory, python=False)
    check = doctor(program=program, status=1)["python"]
    assert says(check, "fail", "/python/sitecustomize.py") == "reinstall tsshim"


def test_driver_of_cuda(directory):
    here = doctor()["cuda_driver"]
    assert here["state"] in ("ok", "n/a"), here
    path = os.path.join(directory, "libcuda.so.1")
    open(path, "w").close()
    check = doctor(env={"LD_LIBRARY_PATH": "/nowhere:" + directory})["cuda_driver"]
    assert check == {**check, "state": "ok", "found": path}, check
    says(doctor()["mig"], "n/a" if not os.path.isdir("/proc/driver/nvidia") else "ok")


def test_wrong_usage(directory):
    expect(tsrun("doctor", "--josn"), 125, "unknown option '--josn' of tsrun doctor\nhint: did you mean '--json'?")
    expect(tsrun("doctor", "--group", "g"), 125, "'--group' does not belong to `tsrun doctor`")
    expect(tsrun("docter"), 127, "did you mean `tsrun doctor`?")
    with open("/dev/full", "w") as full:
        expect(tsrun("doctor", stdout=full), 125, "cannot write to standard output")
