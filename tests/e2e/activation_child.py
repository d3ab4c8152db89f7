# SPDX-License-Identifier: MIT
"""
What activation.py starts: says what an interpreter looks like from the inside.

Runs under every Python from 2.7 on.  Lines that begin with "~" may differ under the preload.
"""

from __future__ import print_function

import os
import sys
import threading

OURS = ("tsshim_torch",)
LOADER = "torch.utils.data.dataloader"


def is_ours(finder):
    return type(finder).__module__ in OURS


def visible(items):
    """@items of an environment that are not about us: [(name, value)]."""
    return [(k, v) for k, v in items if k != "LD_PRELOAD" and not k.startswith("TSSHIM_")]


def facts():
    """Everything a program could notice about how it was started."""
    print("~active", any(is_ours(f) for f in sys.meta_path))
    print("~wanted", not (sys.flags.ignore_environment or sys.flags.no_site))
    print("argv", sys.argv, getattr(sys, "orig_argv", None))
    print("path", sys.path)
    print("flags", sys.flags, sys.dont_write_bytecode)
    print("prefix", sys.prefix, sys.exec_prefix, sys.executable)
    print("environment", visible(os.environ.items()))
    print("modules", sorted(m for m in sys.modules if not m.startswith(OURS)))
    print("finders", [f.__name__ if isinstance(f, type) else type(f).__name__
                      for f in sys.meta_path if not is_ours(f)], len(sys.path_hooks))
    print("cache", sorted(sys.path_importer_cache))
    print("threads", threading.active_count(), sorted(os.listdir("/proc/self/fd")))
    for name in ("sitecustomize", "usercustomize"):
        print(name, vars(sys.modules.get(name, sys)).get("__file__"))
    sys.stdout.flush()
    os.system("exec env | grep -v -e ^LD_PRELOAD= -e ^TSSHIM_ -e ^_=")
    os.system('echo "${PYTHONPATH-unset}"')


def describe(module):
    """How a module came to be, as inspect and pkgutil see it."""
    import inspect
    import pkgutil
    spec = module.__spec__
    print("loader", type(spec.loader), sorted(vars(spec.loader).items()),
          module.__loader__ is spec.loader, spec.loader.get_code(spec.name).co_filename)
    print("spec", spec.name, spec.origin, spec.cached, spec.has_location, module.__file__)
    print("source", len(inspect.getsource(module)), inspect.getmodule(module) is module)
    package = sys.modules["torch.utils.data"]
    print("package", sorted(m.name for m in pkgutil.iter_modules(package.__path__)))
    print("has", sorted(n for n in vars(module) if n.startswith("__")))
    print("~patched", "tsshim_torch.patch" in sys.modules)
    print("~left", not any(is_ours(f) for f in sys.meta_path))


def loader():
    """Torch, or what stands for it, is imported as programs do."""
    import torch.utils.data
    describe(torch.utils.data.dataloader)


def look_first():
    """Asking where the module is must neither import it nor be answered differently."""
    import importlib.util
    import torch
    spec = importlib.util.find_spec(LOADER)
    print(type(spec.loader), spec.origin, spec.name, LOADER in sys.modules)
    other = importlib.util.module_from_spec(spec)
    print(type(other.__loader__), other.__file__, torch.__name__)
    loader()


def reload():
    import importlib
    loader()
    describe(importlib.reload(sys.modules[LOADER]))


def broken():
    """An import that fails, and works when it is tried again."""
    os.environ["FAKE_TORCH_FAILS"] = "1"
    try:
        import torch.utils.data  # noqa: F401
    except ImportError as error:
        print(type(error), error, error.name, LOADER in sys.modules)
    del os.environ["FAKE_TORCH_FAILS"]
    __import__(LOADER)
    describe(sys.modules[LOADER])


def foreign_finder():
    """Somebody's finder stands before ours and answers for the module."""
    import importlib.machinery

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            return importlib.machinery.PathFinder.find_spec(name, path) if name == LOADER else None

    sys.meta_path.insert(0, Finder)
    loader()


def in_thread():
    """The import happens in a thread while others look for modules, too."""
    import importlib.util
    stop = []

    def others():
        while not stop:
            if importlib.util.find_spec("colorsys") is None:
                print("a finder was stepped over")

    threads = [threading.Thread(target=others) for _ in range(3)]
    for thread in threads:
        thread.start()
    worker = threading.Thread(target=loader)
    worker.start()
    worker.join()
    stop.append(True)
    for thread in threads:
        thread.join()


def say(queue):
    """In a child of multiprocessing: the same facts, and our package can be imported."""
    import io
    out, sys.stdout = sys.stdout, io.StringIO()
    try:
        print("~active", any(is_ours(f) for f in sys.meta_path))
        print("path", sys.path, os.environ.get("PYTHONPATH"), "sitecustomize" in sys.modules)
        loader()
        queue.put(sys.stdout.getvalue())
    finally:
        sys.stdout = out


def multiprocess(method):
    import multiprocessing
    context = multiprocessing.get_context(method)
    queue = context.SimpleQueue()
    child = context.Process(target=say, args=(queue,))
    child.start()
    print(queue.get(), end="")
    child.join()
    print(child.exitcode)


def children():
    """Interpreters and others started by an interpreter."""
    import subprocess
    for options in ([], ["-I"], ["-s"]):
        sys.stdout.flush()
        subprocess.check_call([sys.executable] + options + [__file__, "facts"])
    subprocess.check_call([sys.executable, __file__, "facts"], env={})
    subprocess.check_call(["sh", "-c", "%s %s facts" % (sys.executable, __file__)])
    facts()


def execute():
    os.execv(sys.executable, [sys.executable, __file__, "facts"])


def execute_changed():
    """The program changes the variable itself first."""
    os.environ["PYTHONPATH"] = "/tmp/changed"
    execute()


def again():
    """What a program may do to the modules of the start."""
    import importlib
    import site
    site.main()
    for name in ("sitecustomize", "usercustomize", "tsshim_is_not_there"):
        try:
            print(name, importlib.import_module(name).__file__)
        except Exception as error:
            print(type(error), error)
    facts()


if __name__ == "__main__":
    words = sys.argv[1].split(":") if len(sys.argv) > 1 else ["facts"]
    globals()[words[0]](*words[1:])
