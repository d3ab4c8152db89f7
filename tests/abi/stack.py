#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""stack.py BUILD LEAVES EXPORTS LEVEL: how much of a host's stack the library uses.  TAP.

The library's sources are compiled again as BUILD compiles them, at optimization LEVEL, with gcc's
frame sizes and calls (-fstack-usage, -fcallgraph-info).  The deepest way through them must not
need more than LIMIT bytes: from what is exported, what libjpeg and the kernel call back, and what
the C library calls when a process forks, down to the real call or to functions of the C library,
whose need LEAVES measures.  A call through a pointer has to be in POINTERS, and a circle of calls
is a failure: nobody could add it up.
"""
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

LIMIT = 4096
# A program's first thread, before main(): the constructors and what ends it.
FIRST_LIMIT = 8192
FIRST = {"hooks/init.c:begin", "hooks/file/next.c:find_at_start", "hooks/cuda/reach.c:find_at_start"}
# On stacks of our own, or in programs of our own.
OWN = {
    "shim/helper.c:become_helper",
    "shim/helper.c:run_middle",
    "hooks/cuda/service.c:run",
    "ts_stager_main",
}
# What a stub in assembly has on the stack when it calls, above the return address.
STUBS = {"ts_dlsym_first": 24}
OBJECTS = re.compile(r"(^|/)(libtsshim_core\.a\.p|libtsshim\.so\.p|libcuda_early\.a\.p)/")

# Not a call: the program's thread is ended, or unwound by an exception that is not ours.
NO_CALLS = {"_Unwind_Resume"}

# Functions that call what they are given, and the place of that argument: each file that calls
# them has a copy of its own here, so that ways do not mix.  Behind it, on what way they call it.
GIVEN = {
    "ts_elf_each": (0, ["dl_iterate_phdr", "shim/elf.c:visit_one"]),
    "ts_elf_each_next": (0, ["dl_iterate_phdr", "shim/elf.c:visit_one", "shim/elf.c:look_in"]),
    "ts_elf_locked": (0, ["dl_iterate_phdr", "shim/elf.c:run_locked"]),
    "ts_config_load": (2, []),
    "ts_mail_is_served": (1, []),
    "ts_stage_each_copy": (1, []),
}
# What else dl_iterate_phdr() calls, in shim/elf.c itself.
VISITORS = ["defines", "has_name", "is_containing", "look_in", "read_counts", "visit_one"]

HOST = "the real call, or the program's own"
BY_FILE = "see GIVEN"

# Calls through pointers: the file, what its line says, and where they lead.  First one counts.
POINTERS = [
    ("hooks/cuda/copy.c", r"part->bring\(", ["hooks/cuda/batch.c:bring_one"]),
    ("hooks/cuda/gpu.c", r"search\.create\(", ["pthread_create"]),
    ("hooks/cuda/cuda_driver.c", r"pin->open\(", ["dlopen"]),
    ("hooks/cuda/", r"", HOST),
    ("hooks/file/", r"", HOST),
    ("hooks/jpeg/stream.c", r"&finder\)\(", ["ts_decoder_stream"]),
    ("hooks/jpeg/", r"", HOST),
    ("hooks/torch/samples.c", r"ts_store_wait", ["ts_store_wait", "ts_store_wait_a_moment"]),
    ("leader/files/index.c", r"visit\(", BY_FILE),
    ("leader/group/", r"(->|\.)remove\(", ["leader/dependents.c:remove_object", "leader/dependents.c:remove_stage"]),
    ("leader/group/attach.c", r"\.stop\(", ["ts_device_stop"]),
    ("leader/mail/mail.c", r"start\(context\)", BY_FILE),
    ("leader/mail/serve.c", r"on_return\(", []),  # in the process that talks to other nodes
    ("leader/object/object.c", r"fill\(context", [
        "leader/group/objects.c:fill_ledger", "leader/group/objects.c:fill",
        "leader/files/index.c:fill_head", "leader/ring/ring.c:fill_ring"]),
    ("shim/elf.c", r"call->work\(", BY_FILE),
    ("shim/elf.c", r"->visit\(", BY_FILE),
    ("shim/environment.c", r"complain\(|TS_OPTION_COUNT", BY_FILE),
]

ROOT = pathlib.Path(__file__).resolve().parents[2]
NODE = re.compile(r'node: \{ title: "([^"]*)" label: "([^"]*)"')
EDGE = re.compile(r'edge: \{ sourcename: "([^"]*)" targetname: "([^"]*)"(?: label: "([^"]*)")?')
CLONE = re.compile(r"\.(?:part|constprop|isra|cold|lto_priv)(?:\.\d+)?")


def compile_one(entry, level, directory, number):
    """The graph of one file; its lines."""
    words = [w for w in shlex.split(entry["command"]) if w != "ccache"]
    skip = {"-o", "-MF", "-MQ", "-MT"}
    kept, i = [], 0
    while i < len(words):
        if words[i] in skip:
            i += 2
            continue
        if not re.match(r"-O|-g\d?$|-MD$|-MMD$|-c$|-Werror|-fsanitize|-flto", words[i]):
            kept.append(words[i])
        i += 1
    out = directory / f"{number}.s"
    subprocess.run(
        kept + [f"-O{level}", "-w", "-fstack-usage", "-fcallgraph-info=su", "-S", "-o", str(out)],
        cwd=entry["directory"], check=True, env={**os.environ, "CCACHE_DISABLE": "1"},
    )
    return (directory / f"{number}.ci").read_text().splitlines()


class Graph:
    def __init__(self, build, level, hooks):
        self.build = build
        self.hooks = hooks
        self.frames = {}
        self.calls = collections.defaultdict(set)
        self.faults = []
        self.files = {}
        database = json.loads((build / "compile_commands.json").read_text())
        entries = [e for e in database if OBJECTS.search(e["output"])]
        self.sources = {(build / e["file"]).resolve() for e in entries}
        with tempfile.TemporaryDirectory() as directory:
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                graphs = list(pool.map(
                    lambda i: compile_one(entries[i], level, pathlib.Path(directory), i), range(len(entries))))
        pointers = [call for lines in graphs for call in self.read(lines)]
        self.by_name = collections.defaultdict(set)
        for name in self.frames:
            self.by_name[CLONE.sub("", name)].add(name)
        for source, place in pointers:
            self.resolve(source, place)
        self.add_given()
        self.check_exports()

    def relative(self, text):
        """A name of gcc's, that of a static function with its file, or a place, without the way there."""
        path, colon, rest = text.partition(":")
        if not colon:
            return text
        return os.path.relpath((self.build / path).resolve(), ROOT) + ":" + rest

    def read(self, lines):
        """Take frames and calls in; returns the calls through pointers."""
        pointers = []
        for line in lines:
            node, edge = NODE.match(line), EDGE.match(line)
            if node:
                size = re.search(r"(\d+) bytes \((\w[^)]*)\)", node[2])
                if size:
                    name = self.relative(node[1].lstrip("*"))
                    self.frames[name] = int(size[1])
                    self.files[name] = self.relative(node[2].split("\\n")[1]).split(":")[0]
                    if size[2] == "dynamic":
                        self.faults.append(f"{name} has a frame without a bound")
            elif edge:
                source, target = (self.relative(x.lstrip("*")) for x in edge.group(1, 2))
                if target == "__indirect_call":
                    pointers.append((source, self.relative(edge[3] or "")))
                else:
                    self.calls[source].add(target)
        return pointers

    def resolve(self, source, place):
        path, number = place.split(":")[:2]
        lines = (ROOT / path).read_text().splitlines()
        text = lines[int(number) - 1]
        for file, says, leads in POINTERS:
            if path.startswith(file) and re.search(says, text):
                self.calls[source] |= self.targets(leads, place)
                return
        self.faults.append(f"{place}: a call through a pointer that is not in POINTERS: {text.strip()}")

    def targets(self, leads, place):
        if leads in (HOST, BY_FILE):
            return set()
        found = set()
        for name in leads:
            if not self.by_name[name] and ("ts_" in name or ":" in name):
                self.faults.append(f"{place}: there is no function {name}")
            found |= self.by_name[name] or {name}
        return found

    def arguments(self, function, file):
        """What the file hands to that function, of ours."""
        call = re.compile(rf"(?<![\w>*]){function}\(((?:[^()]|\([^()]*\))+)\)")
        found = set()
        for match in call.finditer((ROOT / file).read_text()):
            words = re.split(r",(?![^()]*\))", match[1])
            name = words[GIVEN[function][0]].strip()
            name = name.split("? ")[-1].split(" :")[0]  # or NULL
            own = self.by_name[f"{file}:{name}"] or self.by_name[name]
            if not own and " " not in name and name != "NULL":
                self.faults.append(f"{file}: {function}() is given {name}, which is no function")
            found |= own
        return found

    def add_given(self):
        """What GIVEN tells, as calls."""
        inside = {f"shim/elf.c:{name}" for name in VISITORS}
        for function, (_, way) in GIVEN.items():
            for caller in [name for name, calls in self.calls.items() if function in calls]:
                file = self.files[caller]
                copies = [f"{name} for {function} of {file}" for name in [function] + way]
                self.calls[caller].remove(function)
                self.calls[caller].add(copies[0])
                for name, copy, below in zip([function] + way, copies, copies[1:] + [None]):
                    self.frames[copy] = self.frames.get(name, None)
                    self.calls[copy] |= self.calls.get(name, set())
                    self.calls[copy] |= {below} if below else self.arguments(function, file)
        for name in list(self.calls):
            # Compiled into its callers, or what it does before it calls what it is given.
            if "dl_iterate_phdr" in self.calls[name] and " for " not in name:
                self.calls[name].remove("dl_iterate_phdr")
                self.calls[name].add("dl_iterate_phdr for itself")
        self.frames["dl_iterate_phdr for itself"] = None
        self.calls["dl_iterate_phdr for itself"] = {name for name in inside if name in self.frames}

    def check_exports(self):
        """No call of ours goes through a hook of ours: it would be a program's."""
        for name, calls in self.calls.items():
            for other in calls & set(self.hooks):
                self.faults.append(f"{name} calls {other}(), which is a hook of ours")

    def depth(self, name, leaves, known, above=()):
        """(bytes, the way) of the deepest way from @name down."""
        if name in known:
            return known[name]
        if name in above:
            self.faults.append("a circle of calls: " + " ".join(above[above.index(name):] + (name,)))
            return 0, ()
        own = self.frames.get(name)
        if own is None:
            leaf = name.split(" for ")[0]
            own = leaves.get(leaf, 0)
            if leaf not in leaves and leaf not in NO_CALLS:
                self.faults.append(f"{leaf}() is not in leaves.c")
        best = (0, ())
        for callee in sorted(self.calls.get(name, ())):
            best = max(best, self.depth(callee, leaves, known, above + (name,)))
        known[name] = own + best[0], ((name, own),) + best[1]
        return known[name]


def measure(program):
    """What the C library's functions need."""
    leaves = {}
    for line in subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines():
        name, size = line.split()
        leaves[name] = int(size)
    return leaves


def check(build, program, exports, level):
    graph = Graph(build, level, [name for name in exports if not name.startswith("tsshim_")])
    leaves, known = measure(program), {}
    called = set().union(*graph.calls.values())
    roots = {name for name in graph.frames if name not in called} - OWN
    for name in exports:
        if name not in graph.frames and name != "dlsym":
            graph.faults.append(f"{name} is exported, and the compiler tells no frame of it")
    deepest, first = (0, ()), (0, ())
    for name in sorted(roots | set(exports) - {"dlsym"}):
        size, way = graph.depth(name, leaves, known)
        found = (size + STUBS.get(name, 0), way)
        if name in FIRST:
            first = max(first, found)
        else:
            deepest = max(deepest, found)
    return graph.faults, deepest, first, len(graph.frames), len(roots)


def main():
    build, program, exports, level = sys.argv[1:]
    build = pathlib.Path(build).resolve()
    compiler = shlex.split(json.loads((build / "compile_commands.json").read_text())[0]["command"])
    compiler = [w for w in compiler if w != "ccache"][0]
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout
    if "Free Software Foundation" not in version:
        must = os.environ.get("TSSHIM_TEST_MUST", "0") != "0"
        print("1..1\n" + ("not ok 1 - no gcc" if must else "ok 1 - stack # SKIP only gcc tells frames and calls"))
        return must
    names = pathlib.Path(exports).read_text().split()
    faults, deepest, first, functions, roots = check(build, program, names, level)
    for fault in sorted(set(faults)):
        print("# " + fault)
    print("1..3")
    print(f"{'not ' if faults else ''}ok 1 - {functions} functions at -O{level}, from {roots} that nobody of ours calls")
    failed = bool(faults)
    for number, (what, (size, way), limit) in enumerate((
            ("a call", deepest, LIMIT), ("a constructor", first, FIRST_LIMIT)), 2):
        for name, own in way:
            print(f"#   {own:5} {name}")
        bad = not 0 < size <= limit
        failed |= bad
        print(f"{'not ' if bad else ''}ok {number} - {what} uses {size} bytes of a stack at most, of {limit}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
