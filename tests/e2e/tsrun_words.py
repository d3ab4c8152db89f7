# SPDX-License-Identifier: MIT
"""Messages of tsrun that no other test shows: each with a scene that looks like it, and is not told it."""

import fcntl
import os
import resource
import shutil
import subprocess

import support
from tsrun_common import (MEMBER, PIDS, TSRUN, Skip, clean_environment, compile_c, expect, mounted, needs, needs_libelf,
                          tsrun)
from tsrun_doctor import PYTHON, doctor, installation, limited, preloaded, says


def test_logs_without_a_home(directory):
    for home in ("", "relative"):
        result = tsrun("--events", "--", "true", env={"HOME": home, "XDG_STATE_HOME": ""})
        expect(result, 0, "no event log: HOME is no absolute path, or too long\nhint: --events=FILE names a file")
    expect(tsrun("--events", "--", "true", env={"HOME": directory, "XDG_STATE_HOME": ""}), 0)
    expect(tsrun("--events=%s/log" % directory, "--", "true", env={"HOME": ""}), 0)


def test_proc_that_is_not_there(directory):
    prefix = mounted("mount -t tmpfs tmpfs /proc")
    for words in (["--", "true"], ["doctor"]):
        expect(tsrun(*words, prefix=prefix), 125, "tsrun: cannot read /proc/self/exe: No such file or directory")
    expect(tsrun("--", "true"), 0)


def test_shared_memory_that_is_not_there(directory):
    prefix = mounted("mount -t tmpfs tmpfs /dev")
    found = doctor(prefix=prefix, status=1)
    assert "mount -t tmpfs" in says(found["shm_type"], "fail", "/dev/shm cannot be opened: No such file")
    says(found["leftovers"], "n/a", "the shared memory cannot be listed: No such file")
    for words in (["gc"], ["explain"], ["stats", "--batch-job", "7"]):
        expect(tsrun(*words, prefix=prefix), 125, "tsrun: cannot list the shared memory: No such file or directory")
    says(doctor()["shm_type"], "ok")


def test_shared_memory_that_cannot_be_written_to(directory):
    """What gc cannot open or remove is an error, and named."""
    script = ("mount -t tmpfs -o mode=1777 tmpfs /dev/shm; echo | timeout 30 %s %s words photos die || true; "
              "%s; exec %s \"$@\"")
    needs("unshare", "--mount")
    user = "setpriv --reuid 12345 --clear-groups --"
    for become, then, words in (("", "mount -o remount,ro /dev/shm", ("cannot open", "Read-only file system")),
                                (user, "chmod 0555 /dev/shm", ("cannot remove", "Permission denied")), (user, "true", ())):
        done = tsrun("gc", prefix=["unshare", "--mount", "sh", "-ec", script % (become, MEMBER, then, become), "sh"])
        assert done.returncode == (125 if words else 0), (done.returncode, done.stdout, done.stderr)
        assert all(word in done.stderr for word in words), (words, done.stderr)
        assert ("tsrun: cannot" in done.stderr) == bool(words), done.stderr


def test_libraries_that_are_none(directory):
    needs_libelf()
    for name, harm, words in (
            ("object", lambda path: compile_c(directory, "object", "int object;", "-c") and shutil.copy(
                os.path.join(directory, "object"), path), "it is no shared library"),
            ("machine", lambda path: support.overwrite(path, 18, b"\x7a\x7a"),  # e_machine
             "it is made for another kind of machine than tsrun"),
            ("text", lambda path: open(path, "w").write("text" * 100), "it is no ELF file")):
        program, library = installation(os.path.join(directory, "of-" + name))
        harm(library)
        found = doctor(program=program, status=1)
        assert says(found["library"], "fail", words) == "reinstall tsshim"
        expect(tsrun("--", "true", program=program), 125, "cannot use the library '%s': %s\nhint: reinstall" % (library, words))
    expect(tsrun("--", "true"), 0)


def test_libraries_that_cannot_be_loaded(directory):
    program, library = installation(directory)
    prefix = mounted("mount --bind %s %s && mount -o remount,bind,noexec %s" % (library, library, library))
    says(doctor(program=program, prefix=prefix, status=1)["library"], "fail", "mounted noexec")
    says(doctor(program=program, status=0)["library"], "ok")
    os.chmod(directory, 0o755)
    os.chmod(library, 0)
    found = doctor(program=program, prefix=["setpriv", "--reuid", "12345", "--clear-groups"], status=1)
    says(found["library"], "fail", "it cannot be read")
    os.unlink(library)
    os.mkdir(library)
    says(doctor(program=program, status=1)["library"], "fail", "it is no regular file")


def test_paths_that_cannot_be_preloaded(directory):
    program, library = installation(os.path.join(directory, "a blank"))
    nowhere = {"HOME": "/proc/nowhere", "XDG_STATE_HOME": ""}
    found = doctor(program=program, env=nowhere, status=1)
    fix = says(found["library"], "fail", "ld.so takes no blank, colon or '$' in its path, and a link")
    assert fix.startswith("let HOME or XDG_STATE_HOME name a directory of yours"), fix
    says(found["preload"], "fail", "LD_PRELOAD cannot be set")
    expect(tsrun("--", "true", program=program, env=nowhere), 125, "cannot be preloaded: ld.so takes no blank")
    found = doctor(program=program, env={"HOME": directory, "XDG_STATE_HOME": ""}, status=0)
    says(found["library"], "ok")
    says(found["preload"], "ok")


def test_programs_that_fail_with_the_library(directory):
    says(preloaded(directory, "_exit(3);"), "fail", "ends with 3: it says nothing")
    says(preloaded(directory, "if (write(2, \"no\\n\", 3)) _exit(4);"), "fail", "ends with 4: no")
    says(doctor(env={"PATH": "/nowhere"})["preload"], "n/a", "not tried: there is no program true")
    check = doctor(preexec_fn=limited(resource.RLIMIT_NOFILE, 4), status=1)["preload"]
    says(check, "n/a", "could not be started: Too many open files")
    says(doctor()["preload"], "ok")


def test_preloads_of_the_whole_machine(directory):
    other = compile_c(directory, "libother.so", "int other;", "-shared", "-fPIC")
    prefix = mounted("mount -t tmpfs tmpfs /etc", "echo %s > /etc/ld.so.preload" % other)
    says(doctor(prefix=prefix)["preloads"], "ok", "/etc/ld.so.preload names some")
    says(doctor()["preloads"], "ok", "LD_PRELOAD names no others")


def test_interpreters_that_are_no_python(directory):
    needs_libelf()
    path = os.path.join(directory, "python3")
    shutil.copy(os.path.realpath(shutil.which("env")), path)
    check = doctor(path)["python"]
    assert says(check, "warn", "is no CPython 3.8 or newer") == "an interpreter that is one"
    says(doctor(PYTHON)["python"], "ok", "will find it")
    says(doctor("env")["python"], "ok")


def test_limits_that_are_none(directory):
    """A stand-in tells that there is none: the right to have none is not everybody's."""
    source = "#include <sys/resource.h>\nint getrlimit64(__rlimit_resource_t kind, struct rlimit64 *limit)\n" \
             "{ (void)kind; limit->rlim_cur = limit->rlim_max = RLIM64_INFINITY; return 0; }\n"
    none = compile_c(directory, "libnone.so", source, "-D_GNU_SOURCE", "-shared", "-fPIC")
    says(doctor(env={"LD_PRELOAD": none})["memlock"], "ok", "any memory may")
    says(doctor(preexec_fn=limited(resource.RLIMIT_MEMLOCK, 64 << 10))["memlock"], "ok", "64.0 KiB may be locked")


def test_parts_of_gpus(directory):
    driver = "mount -t tmpfs tmpfs /proc/driver && mkdir -p /proc/driver/nvidia/capabilities/gpu0/mig"
    check = doctor(prefix=mounted(driver + "/gi1 /proc/driver/nvidia/capabilities/gpu0/mig/gi2"))["mig"]
    says(check, "ok", "GPUs are divided into 2 parts")
    says(doctor(prefix=mounted(driver))["mig"], "ok", "no GPU is divided into parts")
    says(doctor(prefix=mounted("mount -t tmpfs tmpfs /proc/driver"))["mig"], "n/a", "no NVIDIA driver is in the kernel")


def needs_the_node():
    if os.stat("/proc/self/ns/pid").st_ino != 0xEFFFFFFC or os.stat("/proc/self/ns/user").st_ino != 0xEFFFFFFD:
        raise Skip("needs the namespaces of the node, not of a container")


def test_what_process_one_has(directory):
    """In the place of process 1 stands a directory that shows what it would have."""
    needs_the_node()
    stands = ("mount -t tmpfs tmpfs %s", "mkdir %s/root", "mount --rbind / %s/root", "mount --rbind %s /proc/1")
    one = [command % directory for command in stands]
    other = "mount -t tmpfs -o mode=1777,size=80g tmpfs /dev/shm"
    check = doctor(prefix=mounted(*one, other))["shm_shared"]
    assert "--ipc=host" in says(check, "warn", "/dev/shm is another one than process 1 has")
    says(doctor(prefix=mounted(*one))["shm_shared"], "ok", "/dev/shm is the one that process 1 has")


def test_a_node_and_a_container(directory):
    needs_the_node()
    needs(*PIDS)
    hidden, inside = doctor(prefix=mounted("mount --bind /tmp /proc/1")), doctor(prefix=PIDS)
    says(hidden["shm_shared"], "n/a", "whether others see this /dev/shm cannot be seen: /proc/1: ")
    says(hidden["namespaces"], "ok", "user and PID namespace are those of the node")
    says(inside["shm_shared"], "n/a", "cannot be seen from inside a PID namespace")
    assert "--pid=host" in says(inside["namespaces"], "warn", "a PID namespace of its own")


def test_a_driver_of_cuda_that_is_not_there(directory):
    open(os.path.join(directory, "libcuda.so.1"), "w").close()
    prefix = mounted("mount -t tmpfs tmpfs /etc")  # ld.so's cache
    says(doctor(prefix=prefix)["cuda_driver"], "n/a", "libcuda.so.1 is not there")
    says(doctor(prefix=prefix, env={"LD_LIBRARY_PATH": directory})["cuda_driver"], "ok", directory)


def test_variables_that_nothing_resembles(directory):
    check = doctor(env={"TSSHIM_ZZZZZZZZZZZZZ": "1"})["settings"]
    assert says(check, "warn", "is not known") == "man tsshim lists them"
    assert says(doctor(env={"TSSHIM_RNIG": "1"})["settings"], "warn") == "did you mean TSSHIM_RING?"


def test_settings_of_files_are_switched_off_there(directory):
    """To unset a variable would not help."""
    os.mkdir(directory + "/tsshim")
    support.write(directory + "/tsshim/tsshim.conf", "share = off\n")
    check = doctor(env={"XDG_CONFIG_HOME": directory})["settings"]
    assert says(check, "warn", "TSSHIM_SHARE=off").endswith("or take it out of the file that `tsrun config` names")
    assert "share" in tsrun("config", env={"XDG_CONFIG_HOME": directory}).stdout
    says(doctor(env={"TSSHIM_SHARE": "auto", "XDG_CONFIG_HOME": directory})["settings"], "ok")


def test_a_process_that_has_shared_nothing(directory):
    for words, said in (([TSRUN, "--"], ": it has the library, and has shared nothing so far\nhint: `tsrun explain` alone"),
                        ([], ": it was started without the library\nhint: start it with `tsrun -- COMMAND`")):
        with subprocess.Popen([*words, "cat"], env=clean_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            process.stdin.write(b"\n")
            process.stdin.flush()
            process.stdout.read(1)  # it is cat
            expect(tsrun("explain", "--pid", str(process.pid)), 125, said)
            process.stdin.close()


def in_memory_of_its_own(script, *words):
    """What tsrun says to @words behind a script in a /dev/shm of its own, where a group named words was left."""
    needs("unshare", "--mount")
    script = ("mount -t tmpfs -o mode=1777 tmpfs /dev/shm; left() { echo | \"$@\" timeout 30 %s words photos die || true; }; "
              "exec 3>&2 2>/dev/null; left; cd /dev/shm; %s\nexec \"$@\" 2>&3 3>&-" % (MEMBER, script))
    return tsrun(*words, prefix=["unshare", "--mount", "sh", "-ec", script, "sh"])


def test_objects_that_are_not_what_they_are_named(directory):
    expect(in_memory_of_its_own("", "explain"), 0)
    expect(in_memory_of_its_own("truncate -s 100 *.ledger", "explain"), 0,
           "cannot read all of group 'words': it is damaged")
    move = "for f in *.words.ledger; do own=$f; done; rm -- *; left unshare --pid --fork; mv *.ledger $own"
    expect(in_memory_of_its_own(move, "stats", "--group", "words"), 125,
           "it is of another user or PID namespace than its name says")
    expect(in_memory_of_its_own("", "stats", "--group", "words"), 0)


def test_what_gc_keeps(directory):
    done = in_memory_of_its_own("echo > tsshim.0.1-2.words.ring", "gc", "-n")
    assert "would keep /dev/shm/tsshim.0.1-2.words.ring: it cannot be read, and is young" in done.stdout, done.stdout
    done = in_memory_of_its_own("touch -d 2001-01-01 tsshim.0.1-2.words.ring", "gc", "-n")
    assert "would keep" not in done.stdout, done.stdout


def test_files_of_servers_that_stay(directory):
    place = os.path.join(directory, "tsshim")
    os.mkdir(place, 0o700)
    os.chmod(directory, 0o700)
    record = os.path.join(place, "server.%016x.record" % 7)
    env = {"XDG_RUNTIME_DIR": directory}
    support.write(record, "no record\n")
    assert "server.%016x.*: its record is damaged" % 7 in tsrun("gc", "-n", env=env).stdout
    with open(record.replace("record", "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "server.%016x.*: a tsrun works at it" % 7 in tsrun("gc", "-n", env=env).stdout
    os.unlink(record)
    assert "would keep %s" % place not in tsrun("gc", "-n", env=env).stdout


def test_pages_without_their_part(directory):
    program, _ = installation(directory)
    expect(tsrun("report", "-o", directory + "/page", "log", program=program), 125, "cannot make the page: ")
    result = tsrun("report", "-o", directory + "/page", "log")
    assert "cannot make" not in result.stderr, result.stderr
