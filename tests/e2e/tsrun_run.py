# SPDX-License-Identifier: MIT
"""tsrun -- command: exit status, environment, wrong usage, commands that cannot share."""

import os
import shutil
import signal
import subprocess

import support
from tsrun_common import (BUILD, CC, HAS_LIBELF, TSRUN, Skip, clean_environment, compile_c, expect,
                          tsrun)

LIBRARY = os.path.realpath(os.path.join(BUILD, "libtsshim.so"))


def environment(result):
    return dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line)


def test_exit_status_is_the_commands_own(directory):
    expect(tsrun("--", "true"), 0)
    expect(tsrun("--", "sh", "-c", "exit 42"), 42)
    expect(tsrun("sh", "-c", "exit 125"), 125)


def test_signal_death_is_the_commands_own(directory):
    expect(tsrun("--", "sh", "-c", "kill -KILL $$"), -signal.SIGKILL)
    expect(tsrun("--", "sh", "-c", "kill -TERM $$"), -signal.SIGTERM)


def test_not_executable(directory):
    path = os.path.join(directory, "data")
    support.write(path, "no program")
    expect(tsrun("--", path), 126, "tsrun: cannot run '%s': Permission denied" % path)
    expect(tsrun("--", directory), 126, "Permission denied")


def test_not_found(directory):
    expect(tsrun("--", "no-such-command-here"), 127, "tsrun: cannot run 'no-such-command-here'")
    expect(tsrun("--", directory + "/none"), 127, "No such file")


def test_missing_interpreter_is_explained(directory):
    path = os.path.join(directory, "script")
    with open(path, "w") as f:
        f.write("#!/no/such/interpreter\n")
    os.chmod(path, 0o755)
    expect(tsrun("--", path), 127, "the interpreter it names is not")


def test_process_id_stays(directory):
    process = subprocess.Popen([TSRUN, "--", "sh", "-c", "echo $$"], env=clean_environment(),
                               stdout=subprocess.PIPE, text=True)
    out, _ = process.communicate(timeout=60)
    assert int(out) == process.pid


def test_no_descriptor_is_left_open(directory):
    plain = subprocess.run(["ls", "/proc/self/fd"], stdout=subprocess.PIPE, text=True).stdout
    wrapped = tsrun("--", "ls", "/proc/self/fd", env={"TSSHIM_DISABLE": "1"})
    expect(wrapped, 0)
    assert len(wrapped.stdout.split()) <= len(plain.split()), wrapped.stdout
    assert len(tsrun("--", "ls", "/proc/self/fd").stdout.split()) <= len(plain.split())


def test_arguments_arrive_untouched(directory):
    words = ["a b", "", "--group", "*", "$HOME", "\n", "-"]
    result = tsrun("--", "printf", "[%s]", *words)
    expect(result, 0)
    assert result.stdout == "".join("[%s]" % w for w in words), result.stdout


def test_library_is_preloaded(directory):
    expect(tsrun("--", "true"), 0)
    assert os.path.realpath(environment(tsrun("env"))["LD_PRELOAD"]) == LIBRARY
    maps = tsrun("--", "cat", "/proc/self/maps")
    assert LIBRARY in maps.stdout, "not mapped"


def test_options_reach_the_environment(directory):
    result = tsrun("--group", "g-1", "--ring=64M", "--verify", "5", "--dataset=d", "--", "env")
    expect(result, 0)
    env = environment(result)
    assert env["TSSHIM_GROUP"] == "g-1" and env["TSSHIM_RING"] == "64M"
    assert env["TSSHIM_VERIFY"] == "5" and env["TSSHIM_DATASET"] == "d"
    assert "TSSHIM_SUMMARY" not in env


def test_option_wins_over_environment(directory):
    env = environment(tsrun("--group=b", "env", env={"TSSHIM_GROUP": "a"}))
    assert env["TSSHIM_GROUP"] == "b"
    env = environment(tsrun("--ring=1G", "env", env={"TSSHIM_RING": "nonsense"}))
    assert env["TSSHIM_RING"] == "1G"


def test_alignment_reaches_the_environment(directory):
    for words, seed in ((["--align"], "0"), (["--align=7"], "7"), (["--align=off"], "off"),
                        (["--align=3", "--align"], "0"), (["--align", "--align=3"], "3"),
                        (["--align", "--"], "0"), (["--align=9223372036854775807", "--"],
                                                   "9223372036854775807")):
        result = tsrun(*words, "env", env={"TSSHIM_ALIGN": "5"})
        expect(result, 0)
        assert environment(result)["TSSHIM_ALIGN"] == seed, words
    for value in ("", "off", "5"):
        result = tsrun("env", env={"TSSHIM_ALIGN": value})
        expect(result, 0)
        assert environment(result)["TSSHIM_ALIGN"] == value
    result = tsrun("--share=samples", "--align", "--epoch", "12", "env")
    expect(result, 0)
    assert environment(result)["TSSHIM_EPOCH"] == "12"
    assert environment(result)["TSSHIM_SHARE"] == "samples"


def test_epoch_without_alignment_is_warned_of(directory):
    for words, env in ((["--epoch", "3"], {}), (["--epoch=3", "--align=off"], {}),
                       ([], {"TSSHIM_EPOCH": "3"}), (["--epoch=0"], {"TSSHIM_ALIGN": ""})):
        expect(tsrun(*words, "true", env=env), 0, "the first epoch counts for aligned jobs only, "
               "ignoring\nhint: add --align, or leave out --epoch and TSSHIM_EPOCH\n")
    expect(tsrun("--epoch=3", "true", env={"TSSHIM_ALIGN": "1"}), 0)
    expect(tsrun("true", env={"TSSHIM_EPOCH": "0"}), 0)


def test_a_free_order_without_alignment_is_warned_of(directory):
    expect(tsrun("--order=free", "true"), 0, "the order is free for aligned jobs only, ignoring\n"
           "hint: add --align, or leave out --order and TSSHIM_ORDER\n")
    expect(tsrun("true", env={"TSSHIM_ORDER": "free", "TSSHIM_ALIGN": "1"}), 0)
    result = tsrun("--order", "fre", "--align", "true")
    expect(result, 125, "option '--order' has a bad value 'fre'")


def test_locality(directory):
    """Takes no value; nothing to an aligned job."""
    result = tsrun("--locality", "env")
    expect(result, 0)
    assert environment(result)["TSSHIM_LOCALITY"] == "1"
    for words in (["--align"], ["--align", "--order=free"]):
        expect(tsrun("--locality", *words, "true"), 0, "the order of an aligned job follows from its seed, "
               "ignoring --locality\nhint: leave out --align, or --locality and TSSHIM_LOCALITY\n")
    expect(tsrun("true", env={"TSSHIM_LOCALITY": "yes"}), 125, "TSSHIM_LOCALITY has a bad value 'yes'")


def test_recordings(directory):
    """Named as seen from where tsrun is; a new file, and only of a free order."""
    free = ["--align", "--order", "free"]
    for option, name in (("--record", "TSSHIM_RECORD"), ("--replay", "TSSHIM_REPLAY")):
        result = tsrun(*free, option, "new file", "env")
        expect(result, 0)
        assert environment(result)[name] == os.path.join(os.getcwd(), "new file")
        assert environment(tsrun(*free, option, "off", "env"))[name] == "off"
        expect(tsrun("--align", option, "/new", "true"), 0, "only a free order is recorded and "
               "replayed, ignoring\nhint: add --align --order free; a strict order follows from "
               "its seed\n")
    there = os.path.join(directory, "there")
    open(there, "w").close()
    expect(tsrun(*free, "--record", there, "true"), 125, "'%s' is there already\nhint: a recording "
           "begins a new file; remove that one, or name another\n" % there)
    expect(tsrun(*free, "true", env={"TSSHIM_RECORD": "relative"}), 125, "TSSHIM_RECORD")


def test_alignment_without_the_library_is_warned_of(directory):
    result = tsrun("--align", "env", env={"TSSHIM_DISABLE": "1"})
    expect(result, 0, "TSSHIM_DISABLE=1 switches alignment off too")
    assert "hint: `--share off` aligns a job" in result.stderr
    assert "LD_PRELOAD" not in environment(result)
    expect(tsrun("--align", "--share", "off", "true"), 0)
    expect(tsrun("--epoch", "3", "true", env={"TSSHIM_DISABLE": "1"}), 0, "the first epoch")


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


def test_summary_names_the_process(directory):
    result = tsrun("--summary", "--", "sh", "-c", "echo $$ $TSSHIM_SUMMARY")
    assert result.returncode == 0
    pid, summary = result.stdout.split()
    assert summary == "pid:" + pid


def test_dataset_directory_becomes_absolute(directory):
    result = tsrun("--dataset", "d=.", "--", "env", cwd=directory)
    expect(result, 0)
    assert environment(result)["TSSHIM_DATASET"] == "d=" + os.path.realpath(directory)
    expect(tsrun("--dataset", "d=none", "true", cwd=directory), 125, "directory 'none'")


def test_nested(directory):
    result = tsrun("--group=a", "--", TSRUN, "--group=b", "--", "env")
    expect(result, 0)
    env = environment(result)
    assert os.path.realpath(env["LD_PRELOAD"]) == LIBRARY and env["TSSHIM_GROUP"] == "b"
    expect(tsrun("--", TSRUN, "--", "sh", "-c", "exit 42"), 42)


def test_existing_preload_stays_in_front(directory):
    other = compile_c(directory, "other.so", "int tsrun_test_other;", "-shared", "-fPIC")
    env = environment(tsrun("env", env={"LD_PRELOAD": other}))
    first, ours = env["LD_PRELOAD"].split(":")
    assert (first, os.path.realpath(ours)) == (other, LIBRARY)
    present = other + " " + os.path.join(BUILD, "libtsshim.so")
    assert environment(tsrun("env", env={"LD_PRELOAD": present}))["LD_PRELOAD"] == present


def test_disabled_runs_bare(directory):
    result = tsrun("--", "env", env={"TSSHIM_DISABLE": "1"})
    expect(result, 0)
    assert "LD_PRELOAD" not in environment(result)


def test_wrong_options(directory):
    expect(tsrun("--grop", "x", "--", "true"), 125,
           "tsrun: unknown option '--grop'\nhint: did you mean '--group'?\n")
    expect(tsrun("--rign=1G", "true"), 125, "did you mean '--ring'?")
    expect(tsrun("--frobnicate", "true"), 125, "`tsrun --help` lists the options")
    expect(tsrun("stats", "--jsn"), 125, "did you mean '--json'?")
    expect(tsrun("stats", "--ring", "1G"), 125, "'--ring' does not belong to `tsrun stats`")
    expect(tsrun("--group"), 125, "option '--group' needs a value")
    expect(tsrun("--allign", "--", "true"), 125, "did you mean '--align'?")
    expect(tsrun("--epcoh", "3", "true"), 125, "did you mean '--epoch'?")
    expect(tsrun("--align=", "--", "true"), 125, "option '--align=' has an empty value\n"
           "hint: --align alone means --align=0\n")
    expect(tsrun("--share", "--", "true"), 125, "hint: write --share WHAT")
    for where in ("auto", "shm", "/tmp"):
        expect(tsrun("--stage", where, "true"), 0, "no directory is named")
        expect(tsrun("--stage", where, "--dataset", "a", "true"), 0, "no directory is named")
        assert tsrun("--stage", where, "--dataset", "a=.", "true").stderr == ""
    assert tsrun("--stage", "off", "true").stderr == ""
    expect(tsrun("--stage", "tmp", "true"), 125, "bad value 'tmp'")
    expect(tsrun("stats", "--align"), 125, "'--align' does not belong to `tsrun stats`")
    expect(tsrun(), 125, "no command given")
    expect(tsrun("--"), 125, "no command given")
    expect(tsrun("statz"), 127, "did you mean `tsrun stats`?")


def test_wrong_values(directory):
    for words in (["--ring=12Q"], ["--ring", "-1"], ["--group", "a/b"], ["--group="],
                  ["--group", ".x"], ["--verify", "101"], ["--verify", "x"], ["--dataset", "a b"],
                  ["--align=x"], ["--align=-1"], ["--align=9223372036854775808"], ["--epoch", "-1"],
                  ["--epoch=2147483648"], ["--share", "bytes"], ["--share="]):
        result = tsrun(*words, "--", "true")
        expect(result, 125, "has a bad value")
        assert "hint: it must be " in result.stderr, result.stderr
    expect(tsrun("gc", "--group=a/b"), 125, "option '--group' has a bad value 'a/b'")
    expect(tsrun("--share", "sample", "true"), 125, "option '--share' has a bad value 'sample'\n"
           "hint: did you mean 'samples'? It must be auto, samples, pixels or off\n")
    expect(tsrun("--align=of", "true"), 125, "hint: did you mean 'off'? It must be a number")


def test_wrong_environment(directory):
    for name, value in (("RING", "lots"), ("DISABLE", "yes"), ("GROUP", ""), ("VERIFY", "-1"),
                        ("SUMMARY", "2"), ("DEBUG", "loud"), ("SHARE", "none"), ("SHARE", ""),
                        ("ALIGN", "yes"), ("EPOCH", "")):
        result = tsrun("true", env={"TSSHIM_" + name: value})
        expect(result, 125, "tsrun: TSSHIM_%s has a bad value '%s'\nhint: " % (name, value))
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
        closed = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", TSRUN, *words],
                                env=clean_environment(), stderr=subprocess.PIPE, text=True)
        expect(closed, 125, "cannot write to standard output")


def test_version_and_help(directory):
    result = tsrun("--version")
    expect(result, 0)
    assert result.stdout.startswith("tsrun (tsshim) "), result.stdout
    for words in (["--help"], ["-h"], ["stats", "--help"], ["gc", "-h"],
                  ["doctor", "--help"], ["top", "--help"], ["explain", "--help"]):
        result = tsrun(*words)
        expect(result, 0)
        lines = result.stdout.splitlines()
        assert lines[0].startswith("Usage: tsrun") and any(line.startswith("Example") for line in lines)


def judged(directory, name, text, *flags):
    if not HAS_LIBELF:
        raise Skip("built without libelf")
    return compile_c(directory, name, text, *flags)


PROGRAM = "int main(void) { return 7; }\n"


def test_static_command_is_warned_of(directory):
    path = judged(directory, "static", PROGRAM, "-static")
    expect(tsrun("--", path), 7, "tsrun: '%s' is statically linked: it runs, but shares nothing"
           % path)
    # Found along PATH, and through a script, it is the same program.
    result = tsrun("static", env={"PATH": directory + ":" + os.environ["PATH"]})
    expect(result, 7, "is statically linked")
    script = os.path.join(directory, "script")
    with open(script, "w") as f:
        f.write("#!%s\n" % path)
    os.chmod(script, 0o755)
    expect(tsrun(script), 7, "'%s' is statically linked" % script)


def test_static_pie_is_warned_of(directory):
    path = judged(directory, "static-pie", PROGRAM, "-static-pie")
    expect(tsrun("--", path), 7, "is statically linked")


def test_dynamic_command_is_not(directory):
    path = judged(directory, "dynamic", PROGRAM)
    expect(tsrun("--", path), 7)


def test_the_dynamic_linker_as_command_is_not(directory):
    if not HAS_LIBELF:
        raise Skip("built without libelf")
    with open("/proc/self/maps") as maps:
        linkers = {line.split()[-1] for line in maps if "/ld-linux" in line}
    if not linkers:
        raise Skip("no glibc dynamic linker in sight")
    expect(tsrun(linkers.pop(), shutil.which("sh"), "-c", "exit 3"), 3)


def test_musl_program_runs_without_the_library(directory):
    linker = os.path.join(directory, "ld-musl-test.so.1")
    path = judged(directory, "musl", "#include <stdlib.h>\n"
                  'int main(void) { return getenv("LD_PRELOAD") ? 1 : 9; }\n',
                  "-Wl,--dynamic-linker=" + linker)
    with open("/proc/self/maps") as maps:
        real = {line.split()[-1] for line in maps if "/ld-linux" in line}
    if not real:
        raise Skip("no glibc dynamic linker in sight")
    os.symlink(real.pop(), linker)
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
    with open(path, "r+b") as f:
        f.seek(18)  # e_machine
        f.write((0x1234).to_bytes(2, "little"))
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
