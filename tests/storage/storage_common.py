# SPDX-License-Identifier: MIT
"""What the tests of slow storage share: files to read, many readers."""

import concurrent.futures
import os
import random
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def content(seed, size):
    """Bytes that no other seed has."""
    return random.Random(seed).randbytes(size)


def write_file(path, data):
    with open(path, "wb") as file:
        file.write(data)


def read_file(path):
    with open(path, "rb") as file:
        return file.read()


def write_files(directory, count, size):
    """Files of different content. Returns {name: content}."""
    made = {"f%04d" % i: content(i, size) for i in range(count)}
    for name, data in made.items():
        write_file(os.path.join(directory, name), data)
    return made


def at_once(function, arguments):
    """Call it for all @arguments in threads of their own. Returns the results in order."""
    arguments = list(arguments)
    with concurrent.futures.ThreadPoolExecutor(len(arguments)) as pool:
        return list(pool.map(function, arguments))


def seconds(function, *arguments):
    """How long a call takes."""
    begin = time.monotonic()
    function(*arguments)
    return time.monotonic() - begin


def takes(least, function, *arguments):
    """The call must take @least seconds.  (How much longer: bench/gates/gate_storage.py.)"""
    took = seconds(function, *arguments)
    assert took >= least, (took, least)


def raises(number, function, *arguments):
    """The call must fail with this errno."""
    try:
        function(*arguments)
    except OSError as error:
        assert error.errno == number, error
        return
    raise AssertionError("%s did not fail" % function)
