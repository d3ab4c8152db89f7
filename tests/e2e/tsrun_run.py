# SPDX-License-Identifier: MIT
"""tsrun -- command: exit status, environment, wrong usage, commands that cannot share."""

import os
import shutil
import signal
import subprocess

import support
from tsrun_common import (BUILD, CC, TSRUN, Skip, clean_environment, compile_c, expect, needs_libelf,
                          tsrun)

LIBRARY = os.path.realpath(os.path.join(BUILD, "libtsshim.so"))


def environment(*words, env=None, **more):
    """That of a command behind these @words, of which nothing is said."""
    told = expect(tsrun(*words, "env", env=env, **more), 0)
    return dict(line.split("=", 1) for line in told.splitlines() if "=" in line)


def test_exit_status_is_the_commands_own():
    for words, status in ((["--", "true"], 0), (["--", "sh", "-c", "exit 42"], 42), (["sh", "-c", "exit 125"], 125),
                          (["--", "sh", "-c", "kill -KILL $$"], -signal.SIGKILL),
                          (["--", "sh", "-c", "kill -TERM $$"], -signal.SIGTERM),
                          (["--", TSRUN, "--", "sh", "-c", "exit 42"], 42)):
        expect(tsrun(*words), status)


def test_commands_that_cannot_be_run(directory):
    data, script = (os.path.join(directory, name) for name in ("data", "script"))
    support.write(data, "no program")
    support.write(script, "#!/no/such/interpreter\n", 0o755)
    for path, status, said in ((data, 126, "tsrun: cannot run '%s': Permission denied" % data),
                               (directory, 126, "Permission denied"),
                               ("no-such-command-here", 127, "tsrun: cannot run 'no-such-command-here'"),
                               (directory + "/none", 127, "No such file"),
                               (script, 127, "the interpreter it names is not")):
        expect(tsrun("--", path), status, said)


def test_the_process_and_its_descriptors_are_the_commands():
    process = subprocess.Popen([TSRUN, "--summary", "--", "sh", "-c", "echo $$ $TSSHIM_SUMMARY"], env=clean_environment(),
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.communicate(timeout=60)[0].split() == [str(process.pid), "pid:%d" % process.pid]
    plain = subprocess.run(["ls", "/proc/self/fd"], stdout=subprocess.PIPE, text=True).stdout
    for env in ({}, {"TSSHIM_DISABLE": "1"}):
        wrapped = expect(tsrun("--", "ls", "/proc/self/fd", env=env), 0)
        assert len(wrapped.split()) <= len(plain.split()), wrapped


def test_arguments_arrive_untouched():
    words = ["a b", "", "--group", "*", "$HOME", "\n", "-"]
    told = expect(tsrun("--", "printf", "[%s]", *words), 0)
    assert told == "".join("[%s]" % w for w in words), told


def test_library_is_preloaded(directory):
    assert os.path.realpath(environment()["LD_PRELOAD"]) == LIBRARY
    assert LIBRARY in tsrun("--", "cat", "/proc/self/maps").stdout, "not mapped"
    env = environment("--group=a", "--", TSRUN, "--group=b", "--")
    assert os.path.realpath(env["LD_PRELOAD"]) == LIBRARY and env["TSSHIM_GROUP"] == "b"
    other = compile_c(directory, "other.so", "int tsrun_test_other;", "-shared", "-fPIC")
    first, ours = environment(env={"LD_PRELOAD": other})["LD_PRELOAD"].split(":")
    assert (first, os.path.realpath(ours)) == (other, LIBRARY)
    present = other + " " + os.path.join(BUILD, "libtsshim.so")
    assert environment(env={"LD_PRELOAD": present})["LD_PRELOAD"] == present


def test_what_reaches_the_environment(directory):
    free = ["--align", "--order", "free"]
    for words, env, wanted in (
            (["--group", "g-1", "--ring=64M", "--verify", "5", "--dataset=d", "--"], {},
             {"GROUP": "g-1", "RING": "64M", "VERIFY": "5", "DATASET": "d", "SUMMARY": None}),
            # An option wins, and a directory becomes absolute.
            (["--group=b"], {"GROUP": "a"}, {"GROUP": "b"}), (["--ring=1G"], {"RING": "nonsense"}, {"RING": "1G"}),
            (["--dataset", "d=.", "--"], {}, {"DATASET": "d=" + os.path.realpath(directory)}),
            (["--share=samples", "--align", "--epoch", "12"], {}, {"EPOCH": "12", "SHARE": "samples"}),
            *((words, {"ALIGN": "5"}, {"ALIGN": seed}) for words, seed in (
                (["--align"], "0"), (["--align=7"], "7"), (["--align=off"], "off"), (["--align=3", "--align"], "0"),
                (["--align", "--align=3"], "3"), (["--align", "--"], "0"),
                (["--align=9223372036854775807", "--"], "9223372036854775807"))),
            *(([], {"ALIGN": value}, {"ALIGN": value}) for value in ("", "off", "5")),
            (["--locality"], {}, {"LOCALITY": "1"}),
            *(((*free, "--" + name.lower(), value), {}, {name: found}) for name in ("RECORD", "REPLAY")
              for value, found in (("new file", os.path.join(os.path.realpath(directory), "new file")), ("off", "off")))):
        found = environment(*words, env={"TSSHIM_" + name: value for name, value in env.items()}, cwd=directory)
        assert {name: found.get("TSSHIM_" + name) for name in wanted} == wanted, (words, env)
    assert "LD_PRELOAD" not in environment("--", env={"TSSHIM_DISABLE": "1"})
    expect(tsrun("--dataset", "d=none", "true", cwd=directory), 125, "directory 'none'")


def test_what_only_aligned_jobs_have(directory):
    """Or only others: it is warned of, and ignored."""
    epoch = "the first epoch counts for aligned jobs only, ignoring\nhint: add --align, or leave out --epoch and TSSHIM_EPOCH\n"
    order = "the order is free for aligned jobs only, ignoring\nhint: add --align, or leave out --order and TSSHIM_ORDER\n"
    orders = "orders are aligned for aligned jobs only, ignoring\nhint: add --align, or leave out"
    across = "samples go to other nodes from aligned jobs of a cluster only, ignoring\nhint: add --align and"
    local = ("the order of an aligned job follows from its seed, ignoring --locality\nhint: leave out --align, or --locality "
             "and TSSHIM_LOCALITY\n")
    record = ("only a free order is recorded and replayed, ignoring\nhint: add --align --order free; a strict order follows "
              "from its seed\n")
    nodes = ["--across", "nodes"]
    for words, env, said in (
            (["--epoch", "3"], {}, epoch), (["--epoch=3", "--align=off"], {}, epoch), ([], {"EPOCH": "3"}, epoch),
            (["--epoch=0"], {"ALIGN": ""}, epoch), (["--epoch=3"], {"ALIGN": "1"}, ""), ([], {"EPOCH": "0"}, ""),
            (["--epoch", "3"], {"DISABLE": "1"}, "the first epoch"),
            (["--order=free"], {}, order), ([], {"ORDER": "free", "ALIGN": "1"}, ""),
            (["--align-orders"], {}, orders), (["--align", "--align-orders"], {}, ""),
            (nodes, {}, across), ([*nodes, "--align"], {}, across), ([*nodes, "--cluster", directory], {}, across),
            ([*nodes, "--align", "--cluster", directory], {}, ""),
            (["--locality", "--align"], {}, local), (["--locality", "--align", "--order=free"], {}, local),
            (["--align", "--record", "/new"], {}, record), (["--align", "--replay", "/new"], {}, record)):
        expect(tsrun(*words, "--", "true", env={"TSSHIM_" + name: value for name, value in env.items()}), 0, said)


def test_recordings_are_new_files(directory):
    there, free = os.path.join(directory, "there"), ["--align", "--order", "free"]
    open(there, "w").close()
    expect(tsrun(*free, "--record", there, "true"), 125, "'%s' is there already\nhint: a recording "
           "begins a new file; remove that one, or name another\n" % there)
    expect(tsrun(*free, "true", env={"TSSHIM_RECORD": "relative"}), 125, "TSSHIM_RECORD")


def test_alignment_without_the_library_is_warned_of():
    result = tsrun("--align", "env", env={"TSSHIM_DISABLE": "1"})
    assert "LD_PRELOAD" not in expect(result, 0, "TSSHIM_DISABLE=1 switches alignment off too")
    assert "hint: `--share off` aligns a job" in result.stderr
    expect(tsrun("--align", "--share", "off", "true"), 0)


def test_value_behind_an_option_without_one(directory):
    for word in ("7", "off"):
        for words in (["--align", word, "--", "true"], ["--group=g", "--align", word, "true"]):
            expect(tsrun(*words, cwd=directory), 127, "tsrun: cannot run '%s': No such file or "
                   "directory\nhint: write --align=%s: its value is joined by '='\n"
                   % (word, word))
    expect(tsrun("--summary", "1", "--", "true"), 127, "hint: option '--summary' takes no value")
    # Who says "--" means a command, and a word that is no value is one as well.
    for words in (["--align", "--", "7"], ["--align", "7x", "true"], ["--align=1", "7"],
                  ["--align", ""], ["7", "--", "true"]):
        result = tsrun(*words, cwd=directory)
        expect(result, 127, "No such file or directory\n")
        assert "hint" not in result.stderr, result.stderr


def test_wrong_options():
    for words, status, said in (
            (["--grop", "x", "--", "true"], 125, "tsrun: unknown option '--grop'\nhint: did you mean '--group'?\n"),
            (["--rign=1G", "true"], 125, "did you mean '--ring'?"),
            (["--frobnicate", "true"], 125, "`tsrun --help` lists the options"),
            (["stats", "--jsn"], 125, "did you mean '--json'?"),
            (["stats", "--ring", "1G"], 125, "'--ring' does not belong to `tsrun stats`"),
            (["--group"], 125, "option '--group' needs a value"),
            (["--allign", "--", "true"], 125, "did you mean '--align'?"),
            (["--epcoh", "3", "true"], 125, "did you mean '--epoch'?"),
            (["--align=", "--", "true"], 125, "option '--align=' has an empty value\n"
             "hint: --align alone means --align=0\n"),
            (["--share", "--", "true"], 125, "hint: write --share WHAT"),
            *((["--stage", where, *more, "true"], 0, "no directory is named") for where in ("auto", "shm", "/tmp")
              for more in ([], ["--dataset", "a"])),
            *((["--stage", where, "--dataset", "a=.", "true"], 0, "") for where in ("auto", "shm", "/tmp")),
            (["--stage", "off", "true"], 0, ""), (["--stage", "tmp", "true"], 125, "bad value 'tmp'"),
            (["stats", "--align"], 125, "'--align' does not belong to `tsrun stats`"),
            ([], 125, "no command given"), (["--"], 125, "no command given"),
            (["--group", "g", "stats"], 125, "options stand before the sub-command 'stats'\nhint: `tsrun stats ...`"),
            (["statz"], 127, "did you mean `tsrun stats`?")):
        expect(tsrun(*words), status, said)


def test_wrong_values(directory):
    for words in (["--ring=12Q"], ["--ring", "-1"], ["--group", "a/b"], ["--group="],
                  ["--group", ".x"], ["--verify", "101"], ["--verify", "x"], ["--dataset", "a b"],
                  ["--align=x"], ["--align=-1"], ["--align=9223372036854775808"], ["--epoch", "-1"],
                  ["--epoch=2147483648"], ["--share", "bytes"], ["--share="]):
        result = tsrun(*words, "--", "true")
        expect(result, 125, "has a bad value")
        assert "hint: it must be " in result.stderr, result.stderr
    for option, bad, good, says in (  # what each kind wants, beside one that it takes
            ("--stage-metadata", "long", "10", "a number of seconds from 0 to 86400"),
            ("--keep", "soon", "10min", "a time up to 30d such as 90s, 10min or 2h"),
            ("--ignore", "opt.lr", "lr,seed", "names with commas between them such as lr,seed, or off"),
            ("--across", "node", "off", "nodes or off"),
            ("--copies", "yes", "on", "auto, on or off"),
            ("--order", "fre", "strict", "option '--order' has a bad value 'fre'")):
        expect(tsrun(option + "=" + bad, "--", "true"), 125, says)
        expect(tsrun(option + "=" + good, "--", "true"), 0)
    expect(tsrun("gc", "--group=a/b"), 125, "option '--group' has a bad value 'a/b'")
    expect(tsrun("--share", "sample", "true"), 125, "option '--share' has a bad value 'sample'\n"
           "hint: did you mean 'samples'? It must be auto, samples, pixels or off\n")
    expect(tsrun("--align=of", "true"), 125, "hint: did you mean 'off'? It must be a number")


def test_wrong_environment(directory):
    for name, value in (("RING", "lots"), ("DISABLE", "yes"), ("GROUP", ""), ("VERIFY", "-1"),
                        ("SUMMARY", "2"), ("DEBUG", "loud"), ("SHARE", "none"), ("SHARE", ""),
                        ("ALIGN", "yes"), ("EPOCH", ""), ("LOCALITY", "yes")):
        expect(tsrun("true", env={"TSSHIM_" + name: value}), 125,
               "tsrun: TSSHIM_%s has a bad value '%s'\nhint: " % (name, value))
    for wrong, right in (("RNG", "RING"), ("ALIGNED", "ALIGN"), ("EPOC", "EPOCH"),
                         ("SHARES", "SHARE")):
        expect(tsrun("true", env={"TSSHIM_" + wrong: "1"}), 0,
               "tsrun: unknown variable TSSHIM_%s in the environment, ignoring\n"
               "hint: did you mean TSSHIM_%s?\n" % (wrong, right))
    expect(tsrun("true", env={"TSSHIM_DEBUG": "wran"}), 125, "hint: did you mean 'warn'? It must be")


def test_output_that_cannot_be_written(directory):
    for words in (["--help"], ["--version"], ["stats", "--json"], ["gc", "--dry-run"],
                  ["doctor"], ["top", "-n1"], ["explain", "--json", "--group", "clitest-none"]):
        with open("/dev/full", "w") as full:
            expect(tsrun(*words, stdout=full), 125, "cannot write to standard output")
        expect(tsrun(*words, prefix=["sh", "-c", 'exec "$@" >&-', "sh"]), 125, "cannot write to standard output")


def test_version_and_help(directory):
    assert expect(tsrun("--version"), 0).startswith("tsrun (tsshim) ")
    for words in (["--help"], ["-h"], ["stats", "--help"], ["gc", "-h"],
                  ["doctor", "--help"], ["top", "--help"], ["explain", "--help"]):
        lines = expect(tsrun(*words), 0).splitlines()
        assert lines[0].startswith("Usage: tsrun") and any(line.startswith("Example") for line in lines)


def judged(directory, name, text, *flags):
    needs_libelf()
    return compile_c(directory, name, text, *flags)


PROGRAM = "int main(void) { return 7; }\n"


def test_static_command_is_warned_of(directory):
    path = judged(directory, "static", PROGRAM, "-static")
    expect(tsrun("--", path), 7, "tsrun: '%s' is statically linked: it runs, but shares nothing"
           % path)
    # Found along PATH, and through a script, it is the same program.
    expect(tsrun("static", env={"PATH": directory + ":" + os.environ["PATH"]}), 7, "is statically linked")
    script = os.path.join(directory, "script")
    support.write(script, "#!%s\n" % path, 0o755)
    expect(tsrun(script), 7, "'%s' is statically linked" % script)
    expect(tsrun("--", judged(directory, "dynamic", PROGRAM)), 7)
    expect(tsrun("--", judged(directory, "static-pie", PROGRAM, "-static-pie")), 7, "is statically linked")


def dynamic_linker():
    with open("/proc/self/maps") as maps:
        linkers = {line.split()[-1] for line in maps if "/ld-linux" in line}
    if not linkers:
        raise Skip("no glibc dynamic linker in sight")
    return linkers.pop()


def test_the_dynamic_linker_as_command_is_not():
    needs_libelf()
    expect(tsrun(dynamic_linker(), shutil.which("sh"), "-c", "exit 3"), 3)


def test_musl_program_runs_without_the_library(directory):
    linker = os.path.join(directory, "ld-musl-test.so.1")
    path = judged(directory, "musl", "#include <stdlib.h>\n"
                  'int main(void) { return getenv("LD_PRELOAD") ? 1 : 9; }\n',
                  "-Wl,--dynamic-linker=" + linker)
    os.symlink(dynamic_linker(), linker)
    expect(tsrun(path), 9, "uses another C library (musl): it runs, but shares nothing")


def test_program_with_sanitizer_runs_without_the_library(directory):
    """Its runtime ends a program that loads anything before it, unless it is told not to look."""
    path = judged(directory, "sanitized", "#include <stdlib.h>\n#include <string.h>\n"
                  'int main(void) { const char *p = getenv("LD_PRELOAD");\n'
                  'return p && strstr(p, "tsshim") ? 8 : 9; }\n', "-fsanitize=address")
    if b"libasan.so" not in open(path, "rb").read():
        raise Skip("the compiler links its sanitizer statically")
    message = "is linked with AddressSanitizer, which has to come first: it runs, but shares nothing"
    expect(tsrun(path, env={"ASAN_OPTIONS": "detect_leaks=0"}), 9, message)
    expect(tsrun(path, env={"ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0"}), 8)
    first = subprocess.run([*CC, "-print-file-name=libasan.so"], stdout=subprocess.PIPE, text=True)
    expect(tsrun(path, env={"ASAN_OPTIONS": "detect_leaks=0",
                            "LD_PRELOAD": os.path.realpath(first.stdout.strip())}), 8)
    plain = compile_c(directory, "plain", PROGRAM)
    expect(tsrun(plain, env={"ASAN_OPTIONS": ""}), 7)


def test_foreign_machine_is_warned_of(directory):
    path = judged(directory, "foreign", PROGRAM)
    support.overwrite(path, 18, b"\x34\x12")  # e_machine
    # What then happens is the kernel's and execvp's business, as without tsrun.
    result = tsrun(path)
    assert "is made for another kind of machine than tsrun" in result.stderr, result.stderr
    assert result.returncode == subprocess.run(["env", path], stderr=subprocess.PIPE).returncode


def test_setuid_command_is_warned_of(directory):
    if os.getuid() != 0:
        raise Skip("only root can make a file of another user")
    path = judged(directory, "setuid", PROGRAM)
    os.chown(path, 12345, -1)
    os.chmod(path, 0o4755)
    expect(tsrun(path), 7, "is setuid, setgid or has capabilities")
