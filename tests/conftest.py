# SPDX-License-Identifier: MIT
"""How pytest runs the tests in Python: which files and tests, in which process, and what is told at the end."""

import importlib
import os
import re
import subprocess
import sys
import tempfile

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "e2e"))
import scenes  # noqa: E402
import support  # noqa: E402

SLOWEST = 20  # so many tests are told
took = []  # (seconds, of CPU, name) of each test
left = []  # names of the tests that are left to --whole
statuses = []  # of pytest, of files that ran in other processes


class File(pytest.Module):
    """A file of tests; whoever imports it may find that they belong into another process."""

    def collect(self):
        try:
            return list(super().collect())
        except support.Skip as skip:
            skipped(skip)
        except support.Elsewhere as there:
            named = [word for word in self.config.args if word.partition("::")[0].endswith(self.path.name)]
            words = [word for word in self.config.invocation_params.args if word not in self.config.args]
            if there.settings is not None:
                words.append("--assert=plain")  # the library takes code only as its file has it
            for plugin in self.config.pluginmanager.get_plugins():
                if type(plugin).__name__ == "LogXML" and len(self.config.args) == 1:
                    self.config.pluginmanager.unregister(plugin)  # the report is written there
            with there.environment() as env:
                statuses.append(subprocess.call(
                    [there.python, "-m", "pytest", *words, *(named or [str(self.path)])], env=env))
            return []


def skipped(skip):
    """Raise what pytest knows a @skip by; a test that must not be skipped fails."""
    assert not support.MUST or skip.feature in support.MAY_SKIP, "must not be skipped: %s" % skip
    pytest.skip(str(skip), allow_module_level=True)


def pytest_pycollect_makemodule(module_path, parent):
    return File.from_parent(parent, path=module_path)


def pytest_ignore_collect(collection_path):
    """Of a directory, files without tests: nobody imports jobs, and what tests have in common, to look for tests."""
    if collection_path.suffix == ".py" and not re.search(
            r"^def (test|gate)_", collection_path.read_text(encoding="utf-8"), re.MULTILINE):
        return True


def pytest_collection_modifyitems(config, items):
    """Without --whole, and where none is chosen by name, those that are marked are left out."""
    if support.WHOLE or config.option.keyword or any("::" in word for word in config.args):
        return
    chosen = [item for item in items if not item.get_closest_marker("whole")]
    if items and not chosen:
        raise pytest.UsageError("all are left to --whole: this file is of the suite e2e-whole")
    left.extend(item.name[5:] for item in items if item not in chosen)
    items[:] = chosen


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run a test, look at what was shown meanwhile, and note how long it took."""
    words = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    before = support.clocks()
    try:
        with scenes.of(pyfuncitem.path.stem, pyfuncitem.originalname[5:]):
            pyfuncitem.obj(**words)
    finally:
        took.append((*(after - then for after, then in zip(support.clocks(), before)), pyfuncitem.name))
    return True


def pytest_runtest_makereport(item, call):
    """A support.Skip, of a test or of one of its fixtures, is one of pytest's."""
    if call.excinfo and isinstance(call.excinfo.value, support.Skip):
        call.excinfo = pytest.raises(BaseException, skipped, call.excinfo.value)


def pytest_terminal_summary(terminalreporter):
    """What scripts/lib/count_tests.py reads in Meson's log, and where the time went."""
    for seconds, cpu, name in sorted(took, reverse=True)[:SLOWEST]:
        terminalreporter.write_line("# %6.1f s, %6.1f s of CPU: %s" % (seconds, cpu, name))
    if left:
        terminalreporter.write_line("# left to --whole: " + " ".join(left))
    numbers = {word: len(terminalreporter.getreports(word)) for word in ("passed", "failed", "error", "skipped")}
    terminalreporter.write_line("# tests: %d passed, %d failed, %d skipped, %d left to --whole" % (
        numbers["passed"], numbers["failed"] + numbers["error"], numbers["skipped"], len(left)))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """What failed in other processes has failed; that nothing is left to do here has not."""
    wrong = [status for status in statuses if status not in (0, pytest.ExitCode.NO_TESTS_COLLECTED)]
    if statuses and session.exitstatus in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = max(wrong or (statuses if not session.testscollected else [0]))


# ---- what tests ask for by name ----------------------------------------------------------------

def with_the_block_of(name, make):
    """The fixture of that @name: what @make() returns, within its `with` block."""
    def fixture():
        with make() as one:
            yield one
    return pytest.fixture(fixture, name=name)


def of(module, name, *words):
    """What makes one of a @name of the @module, which only a test that asks for one imports."""
    return lambda: getattr(importlib.import_module(module), name)(*words)


directory = with_the_block_of("directory", tempfile.TemporaryDirectory)
group = with_the_block_of("group", support.Group)
node = with_the_block_of("node", of("slurm_node", "Node"))
log = with_the_block_of("log", of("events_common", "Log"))
gpu = with_the_block_of("gpu", of("copies_common", "Gpu"))
storage = with_the_block_of("storage", of("mounted", "Mounted"))
one, two, three, four = (with_the_block_of(name, of("cluster_servers", "Cluster", count))
                         for count, name in enumerate(("one", "two", "three", "four"), 1))
