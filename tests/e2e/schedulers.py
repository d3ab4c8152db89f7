# SPDX-License-Identifier: MIT
"""What docs/schedulers.md gives to administrators of PBS and Grid Engine, run with stand-ins for these."""

import os
import re
import shlex
import subprocess
import types

import support

PAGE = support.read(os.path.join(os.path.dirname(os.path.dirname(support.HERE)), "docs", "schedulers.md"))
PREFIX = "/usr/local"  # of an installation, on that page
LIBRARY = PREFIX + "/lib/x86_64-linux-gnu/tsshim/libtsshim.so"
NOBODY, NOGROUP = 65534, 65534
LINE = "tsshim: 18 of 24 images taken from other jobs, 3.00 s of CPU saved; `tsrun stats` tells more\n"


def block(begin):
    """The one block of the page that has such a line."""
    found, = [text for text in re.findall(r"^```\w*\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) if begin in text]
    return found


def member(node, job, variable, user):
    """A program of that batch job, which has counted."""
    program = node.hand_over([os.path.join(support.BUILD, "tests/unit/tsrun/tsrun-member")])
    subprocess.run([*program, "schedulers", "photos"], env={variable: job}, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, check=True, timeout=60, **user)


def launch(environment):
    """What the hook of PBS makes of the environment of a program."""
    event = types.SimpleNamespace(env=dict(environment), accepted=0)

    def accept():
        event.accepted += 1
    event.accept = accept
    pbs = types.SimpleNamespace(event=lambda: event)
    code = block("import pbs\n").replace("import pbs\n", "")
    exec(compile(code, "hook", "exec"), {"pbs": pbs})  # pylint: disable=exec-used
    assert event.accepted == 1
    return event.env


def test_the_hook_of_pbs():
    assert launch({"A": "b"}) == {"A": "b", "LD_PRELOAD": LIBRARY, "TSSHIM_GROUP": "pbs"}
    assert launch({"LD_PRELOAD": "/a.so:", "TSSHIM_GROUP": "mine"}) == {
        "LD_PRELOAD": "/a.so:" + LIBRARY, "TSSHIM_GROUP": "mine"}
    for there in ({"LD_PRELOAD": LIBRARY}, {"TSSHIM_DISABLE": "1"}):
        assert launch(there) == there


def test_the_epilogue_of_pbs(node):
    user = {"user": NOBODY, "group": NOGROUP, "extra_groups": []}
    script = os.path.join(node.root, "epilogue")
    support.write(script, block("setpriv").replace("PATH=" + PREFIX, "PATH=" + os.path.dirname(
        os.path.dirname(node.tsrun))), 0o500)
    for _ in range(2):
        member(node, "4711.server", "PBS_JOBID", user)
    member(node, "4712.server", "PBS_JOBID", user)
    words = ["nobody", "nogroup", "name", "1", "", "", "batch", "null", "0"]
    done = subprocess.run([script, "4711.server", *words], env={"PBS_JOBDIR": "/"}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, LINE, "")
    assert node.shared(NOBODY) == []
    # PBS would keep the node for a status other than 0.
    os.unlink(node.tsrun)
    done = subprocess.run([script, "4711.server", *words], env={}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_options_and_the_epilog_of_grid_engine(node):
    options = dict(word.split("=", 1) for word in block("-v LD_PRELOAD").split()[1].split(","))
    assert options == {"LD_PRELOAD": LIBRARY, "TSSHIM_GROUP": "ge"}
    user = {"user": NOBODY, "group": NOGROUP, "extra_groups": []}
    for _ in range(2):
        member(node, "4711", "JOB_ID", user)
    word, *command = shlex.split(block("epilog "))
    assert word == "epilog"
    command = [part.replace("$job_id", "4711").replace(PREFIX + "/bin/tsrun", node.tsrun) for part in command]
    done = subprocess.run(command, env={}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=60, **user)
    assert (done.returncode, done.stdout, done.stderr) == (0, LINE, "")
    subprocess.run([node.tsrun, "gc"], env={}, stdout=subprocess.DEVNULL, check=True, timeout=60, **user)
    assert node.shared(NOBODY) == []
