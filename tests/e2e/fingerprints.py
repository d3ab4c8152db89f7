# SPDX-License-Identifier: MIT
"""Fingerprints of datasets: equal where they must be, different where anything differs."""

import ctypes
import functools
import mmap
import os
import sys
import tempfile

import support

PACKAGE = os.path.join(support.HERE, "..", "..", "hooks", "torch", "python")
CHILD = os.path.join(support.HERE, "fingerprints_child.py")


@functools.lru_cache(maxsize=None)
def outputs():
    """What two processes with other seeds of hashes print: {name: (kind, results)} of each."""
    if not support.has_modules(support.torch_python(), "torch", "torchvision"):
        raise support.Skip("torch", "not installed for " + support.torch_python())
    found = []
    with tempfile.TemporaryDirectory() as work:
        for seed in ("1", "2"):
            outcome = support.run([support.torch_python(), CHILD], support.plain_environment(
                PYTHONPATH=PACKAGE, PYTHONHASHSEED=seed, TSSHIM_TEST_IMAGES=work + "/images"))
            assert outcome.status == 0, outcome.errors[-1500:]
            lines = [line.split(" ") for line in outcome.output.splitlines()]
            found.append({name: (kind, results) for kind, name, *results in lines})
    return found


def cases(kind):
    """[(name, results)] of a kind, in both processes."""
    found = [(name, results) for output in outputs()
             for name, (of, results) in output.items() if of.strip("~+") == kind]
    assert found, kind
    return found


@support.whole
def test_two_processes():
    first, second = outputs()
    assert first.keys() == second.keys() and len(first) > 25, first.keys() ^ second.keys()
    differing = [name for name in first
                 if not first[name][0].startswith("~") and first[name] != second[name]]
    assert not differing, [(name, first[name], second[name]) for name in differing]


def test_every_change_counts():
    for name, results in cases("differ"):
        assert len(results) > 1 and not any("!" in result for result in results), (name, results)
        again = [number for number, result in enumerate(results) if results.index(result) < number]
        assert not again, (name, again)


def test_what_does_not_count():
    for name, results in cases("same"):
        assert len(set(results)) == 1 and "!" not in results[0], (name, results)


def test_unknown():
    for name, results in cases("unknown"):
        assert len(results) > 15 and set(results) == {"ok"}, (name, set(results))


def test_environment_and_subsets():
    for name, results in cases("check"):
        assert len(results) == 1, (name, results)  # the child itself asserts


def named(mapping):
    """(digest, kinds of tokens) of what is in @mapping, told as the bytes of a table are."""
    sys.path.insert(0, PACKAGE)
    from tsshim_torch.fingerprint import arrays, walk
    walker, tags = walk.Walker("table"), []
    put = walker.put
    walker.put = lambda tag, payload=b"": (tags.append(tag), put(tag, payload))
    buffer = (ctypes.c_char * 256)()  # more than a Py_buffer, which begins with the address
    assert ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(mapping), buffer, 0) == 0
    address = ctypes.c_void_p.from_buffer(buffer).value
    arrays.add_memory(walker, address, len(mapping))
    ctypes.pythonapi.PyBuffer_Release(buffer)
    return walker.hash.hexdigest(), set(tags)


def test_private_mappings_are_named_by_their_file(directory):
    """Where they cannot be written; as Arrow maps its tables."""
    path = os.path.join(directory, "table")

    def mapped(content, protection):
        support.write(path, content)
        with open(path, "rb") as file:
            return mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, protection)

    first = named(mapped(b"a" * 10000, mmap.PROT_READ))
    again = mapped(b"b" * 10000, mmap.PROT_READ)
    second = named(again)
    assert first[1] == second[1] == {b"w"} and first[0] != second[0]
    assert named(again) == second
    os.unlink(path)
    assert named(again)[1] == {b"y"}  # read: nobody can say which file that is
    written = mapped(b"c" * 10000, mmap.PROT_READ | mmap.PROT_WRITE)
    before = named(written)
    written[5] = 7
    assert before[1] == {b"y"} and named(written)[0] != before[0]


def test_imports_no_torch():
    code = ("import sys; "
            "from tsshim_torch.fingerprint.datasets import fingerprint as f, environment as e; "
            "f([1]), e(); assert not {'torch', 'numpy', 'PIL'} & set(sys.modules)")
    outcome = support.run([support.torch_python(), "-c", code],
                          support.plain_environment(PYTHONPATH=PACKAGE))
    assert outcome.status == 0, outcome.errors
