# SPDX-License-Identifier: MIT
"""Programs that share copies: what they are told is what the driver tells them without us."""


import support
from copies_common import DRIVER, Gpu, Until
from support import PYTHON, equal, finish, run, start


# For scripts that go on until a pipe has ended, whose number is their last argument; with none of
# it they go on once.
GOES_ON = """
import select, sys, time
def goes_on():
    time.sleep(.003)
    end = int(sys.argv[-1])
    return end >= 0 and not select.select([end], [], [], 0)[0]
"""

# What a child does of its own, and what a stream does while it is captured.
CHILD = """
import ctypes, os, sys
def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
cuda = ctypes.CDLL("libcuda.so.1")
size, context, device = ctypes.c_size_t(1 << 20), ctypes.c_void_p(), ctypes.c_uint64()
def begin():
    cuda.cuInit(0)
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    cuda.cuCtxSetCurrent(context)
    cuda.cuMemAlloc_v2(ctypes.byref(device), size)
source = ctypes.create_string_buffer(b"x" * (1 << 20), 1 << 20)
def copies(count):
    return [cuda.cuMemcpyHtoD_v2(device, source, size) for _ in range(count)]
if sys.argv[1] == "before":
    pid = os.fork()
    begin()
    say(pid == 0, set(copies(20)))
else:
    begin()
    say(set(copies(20)))
    pid = os.fork()
    if pid == 0:
        say(len(copies(20)))
if pid:
    say(os.waitpid(pid, 0)[1])
else:
    os._exit(0)
"""

# Another thread is in the loader's list when a child is made, which then looks something up.
LIST = """
import ctypes, os, signal, threading
cuda, libc = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None)
size, context, device = ctypes.c_size_t(1 << 20), ctypes.c_void_p(), ctypes.c_uint64()
print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
print(cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(device), size))
source = ctypes.create_string_buffer(1 << 20)
print(cuda.cuMemcpyHtoD_v2(device, source, size))
inside, done = threading.Event(), threading.Event()
def visit(info, bytes, data):
    inside.set()
    done.wait()
    return 1
visit = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)(visit)
thread = threading.Thread(target=libc.dl_iterate_phdr, args=(visit, None))
thread.start()
inside.wait()
pid = os.fork()
if pid == 0:
    signal.alarm(60)  # a guard
    cuda.cuMemcpyHtoD_v2(device, source, size)
    os._exit(cuda.cuMemcpyHtoD_v2_ptds is None)
print(os.waitpid(pid, 0)[1])
done.set()
thread.join()
"""

CAPTURE = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
size, context, device = ctypes.c_size_t(1 << 20), ctypes.c_void_p(), ctypes.c_uint64()
stream, graph, pinned = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
print(cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(device), size))
print(cuda.cuStreamCreate(ctypes.byref(stream), 1))
print(cuda.cuMemHostAlloc(ctypes.byref(pinned), size, 0))
source = ctypes.create_string_buffer(b"x" * (1 << 20), 1 << 20)
print(cuda.cuMemcpyHtoDAsync_v2(device, source, size, stream))
print(cuda.cuMemcpyHtoDAsync_v2(device, pinned, size, stream))
for mode in (0, 1, 2):
    print(cuda.cuStreamBeginCapture_v2(stream, mode))
    print(cuda.cuMemcpyHtoDAsync_v2(device, pinned, size, stream))
    print(cuda.cuStreamEndCapture(stream, ctypes.byref(graph)))
"""

# Calls without a stream while another one is captured, here or in another thread, of bytes that
# are in a ring by then.
FORBIDDEN = GOES_ON + """
import ctypes, threading
cuda = ctypes.CDLL("libcuda.so.1")
size, context, device = ctypes.c_size_t(1 << 20), ctypes.c_void_p(), ctypes.c_uint64()
stream, graph = ctypes.c_void_p(), ctypes.c_void_p()
print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
print(cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(device), size))
print(cuda.cuStreamCreate(ctypes.byref(stream), 1))
source = ctypes.create_string_buffer(b"x" * (1 << 20), 1 << 20)
def copies():
    return [cuda.cuMemcpyHtoD_v2(device, source, size),
            cuda.cuMemcpyHtoD_v2_ptds(device, source, size),
            cuda.cuMemcpy(device, ctypes.c_uint64(ctypes.addressof(source)), size)]
def elsewhere(mode, begun, done):
    print(cuda.cuCtxSetCurrent(context), cuda.cuStreamBeginCapture_v2(stream, mode))
    begun.set()
    done.wait()
    print(cuda.cuStreamEndCapture(stream, ctypes.byref(graph)))
while goes_on():
    assert copies() == [0, 0, 0]
for mode in (0, 1, 2):
    print(cuda.cuStreamBeginCapture_v2(stream, mode))
    print(copies(), cuda.cuStreamEndCapture(stream, ctypes.byref(graph)))
    begun, done = threading.Event(), threading.Event()
    thread = threading.Thread(target=elsewhere, args=(mode, begun, done))
    thread.start()
    begun.wait()
    print(copies())
    done.set()
    thread.join()
    print(copies())
"""

# Copies of what is in a ring by then, in a stream of another context and to a range of two
# allocations; then more of the others.
ODD = GOES_ON + """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context, other, device = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
stream, of_other = ctypes.c_void_p(), ctypes.c_void_p()
print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
print(cuda.cuCtxCreate_v2(ctypes.byref(other), 0, 0), cuda.cuStreamCreate(ctypes.byref(of_other), 1))
print(cuda.cuCtxSetCurrent(context), cuda.cuStreamCreate(ctypes.byref(stream), 1))
MB = 1 << 20
def allocate():
    memory = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(MB)) == 0
    return memory.value
several = sorted(allocate() for _ in range(8))
first, second = min(zip(several, several[1:]), key=lambda pair: pair[1] - pair[0])
across = second - first + MB // 2
assert cuda.cuMemAlloc_v2(ctypes.byref(device), ctypes.c_size_t(across)) == 0
source = ctypes.create_string_buffer(b"x" * across, across)
def copy(to=device.value, by=None):
    size = ctypes.c_size_t(across)
    if by:
        return cuda.cuMemcpyHtoDAsync_v2(ctypes.c_uint64(to), source, size, by)
    return cuda.cuMemcpyHtoD_v2(ctypes.c_uint64(to), source, size)
while goes_on():
    assert copy() == 0
print(copy(by=of_other), cuda.cuStreamSynchronize(of_other), copy(by=stream))
print(copy(to=first), copy(to=first, by=stream), cuda.cuStreamSynchronize(stream))
assert [copy() for _ in range(100)] == [0] * 100
"""

# Copies that the driver refuses without a look at the source, which is shorter than they are.
REFUSED = GOES_ON + """
import ctypes, mmap
cuda, libc = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None)
size, context, other = ctypes.c_size_t(1 << 20), ctypes.c_void_p(), ctypes.c_uint64()
device, hidden = ctypes.c_uint64(), ctypes.c_size_t(63 << 20)
print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
print(cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(device), size))
print(cuda.cuMemAlloc_v2(ctypes.byref(other), size))
if other.value < device.value:
    device, other = other, device
apart = other.value - device.value
assert apart < 32 << 20, apart
memory = mmap.mmap(-1, 64 << 20)
source = ctypes.addressof(ctypes.c_char.from_buffer(memory))
print(libc.mprotect(ctypes.c_void_p(source + (1 << 20)), hidden, 0))
while goes_on():
    assert cuda.cuMemcpyHtoD_v2(device, ctypes.c_void_p(source), size) == 0
for count in ((1 << 20) + 1, apart + 4096, apart + (1 << 20), (1 << 64) - 4):
    print(cuda.cuMemcpyHtoD_v2(device, ctypes.c_void_p(source), ctypes.c_size_t(count)))
"""


def both_until(gpu, commands, holds):
    """The outcomes of programs that run at once, with what each is told besides, and go on until
    @holds(counters of the driver)."""
    then = Until()
    jobs = [start([PYTHON, "-c", *words, str(then.theirs)],
                  gpu.group.environment(**{**gpu.more, **more}), pass_fds=then.fds)
            for words, more in commands]
    outcomes = then.end(jobs, gpu, holds, finish)
    gpu.safe()
    return outcomes


def two_of(script, gpu):
    """The outcome of a script that runs twice at once and shares what it brings with itself."""
    return both_until(gpu, [([script], {})] * 2,
                      lambda now: now.get("d2d_copies", 0) > 200 and gpu.taken() > 200)


def test_what_a_capture_forbids_the_driver_refuses():
    wanted = run([PYTHON, "-c", FORBIDDEN, "-1"], support.plain_environment(LD_LIBRARY_PATH=DRIVER))
    assert "[900, 900, 900] 901" in wanted.output, (wanted.output, wanted.errors)
    with Gpu() as gpu:
        for outcome in two_of(FORBIDDEN, gpu):
            equal(wanted, outcome, "forbidden")
        assert gpu.taken() > 200, gpu.counters()


def test_odd_copies_are_the_driver_s_and_no_more():
    wanted = run([PYTHON, "-c", ODD, "-1"], support.plain_environment(LD_LIBRARY_PATH=DRIVER))
    assert wanted.output.endswith("0 0 0\n1 1 0\n"), (wanted.output, wanted.errors)
    with Gpu() as gpu:
        for outcome in two_of(ODD, gpu):
            equal(wanted, outcome, "odd")
        found = gpu.group.statistics()
        assert gpu.taken() > 200, found
        assert found["passed"]["copy_state"] == 6, found["passed"]


def test_what_the_driver_refuses_is_not_read():
    wanted = run([PYTHON, "-c", REFUSED, "-1"], support.plain_environment(LD_LIBRARY_PATH=DRIVER))
    assert wanted.output.split()[-4:] == ["1"] * 4, wanted
    with Gpu() as gpu:
        # Then the service is ready, for it goes round in the program's context.
        outcome, = both_until(gpu, [([REFUSED], {})],
                              lambda now: now.get("call.cuCtxPushCurrent_v2", 0) > 4)
        equal(wanted, outcome, "refused")


# An error that stays, and a program that gets rid of it as the driver's manual says.
RECOVERS = GOES_ON + """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
steps, wait, end = int(sys.argv[1]), float(sys.argv[2]), getattr(cuda, sys.argv[3])
size, context, device = ctypes.c_size_t(1 << 20), ctypes.c_void_p(), ctypes.c_uint64()
arrived, recovered = ctypes.create_string_buffer(1 << 20), []
def begin():
    return (cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
            cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(device), size))
def bring(step):
    data = (step % 65536).to_bytes(2, "little") * (1 << 19)
    result = cuda.cuMemcpyHtoDAsync_v2(device, data, size, None)
    if result == 0:
        result = cuda.cuMemcpyDtoH_v2(arrived, device, size)
    assert result or arrived.raw == data, step
    return result
cuda.cuInit(0)
print(begin())
step, more = 0, True
while more or step < steps:
    more = goes_on()  # what made it end came before this step
    result = bring(step)
    step += 1
    if result:
        time.sleep(wait)
        cuda.cuCtxSetCurrent(None)
        if sys.argv[3].endswith("Reset_v2"):
            end(0)  # this does not count as giving the reference back
        recovered.append((result, cuda.cuDevicePrimaryCtxRelease_v2(0), begin(), bring(step)))
print(recovered)
"""


def recover(end, wait, env, fail):
    return start([PYTHON, "-c", RECOVERS, "40", str(wait), end, "-1"], {**env, **fail})


def fail_while_sharing(end, failing):
    """One of two jobs meets the error of a call of ours, which only jobs that share make."""
    good, bad = "[]", "[(700, 0, (0, 0, 0), 0)]"
    fail = {"FAKECUDA_FAIL": "cuEventQuery:20:700"}
    with Gpu(FAKECUDA_JITTER_US="300") as gpu:
        commands = [([RECOVERS, "1", "0", end], fail if i == failing else {}) for i in range(2)]
        outcomes = both_until(gpu, commands,
                              lambda now: now.get("injected", 0) and now["d2d_copies"])
        for i, outcome in enumerate(outcomes):
            assert (bad if i == failing else good) in outcome.output, (failing, outcome)


def test_an_error_that_stays_goes_with_its_context():
    # Of the program's own call, alone; we meet it before the context is given back, or then.
    for end in ("cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxReset_v2"):
        for wait in (0, .2):
            fail = {"FAKECUDA_FAIL": "cuMemcpyDtoH_v2:30:700"}
            wanted = finish(recover(end, wait, support.plain_environment(LD_LIBRARY_PATH=DRIVER),
                                    fail))
            assert "[(700, 0, (0, 0, 0), 0)]" in wanted.output, wanted
            with Gpu() as gpu:
                env = gpu.group.environment(**gpu.more)
                equal(wanted, finish(recover(end, wait, env, fail)), (end, wait))
    # Of ours, with copies under way in a ring, of one's own or of another job, which goes on.
    for failing in (0, 1):
        fail_while_sharing(end, failing)


def test_children():
    for when in ("before", "after"):
        command = [PYTHON, "-c", CHILD, when]
        wanted = run(command, support.plain_environment(LD_LIBRARY_PATH=DRIVER))
        with Gpu() as gpu:
            outcome = run(command, gpu.group.environment(**gpu.more))
            lines = [sorted(o.output.splitlines()) for o in (wanted, outcome)]
            assert lines[0] == lines[1] and outcome.status == 0, (when, wanted.output,
                                                                  outcome.output)


def test_a_child_of_a_process_whose_loader_is_busy():
    wanted = run([PYTHON, "-c", LIST], support.plain_environment(LD_LIBRARY_PATH=DRIVER))
    assert wanted.output.endswith("\n0\n"), wanted
    with Gpu() as gpu:
        equal(wanted, run([PYTHON, "-c", LIST], gpu.group.environment(**gpu.more)), "list")


def test_captured_streams_are_left_alone():
    wanted = run([PYTHON, "-c", CAPTURE], support.plain_environment(LD_LIBRARY_PATH=DRIVER))
    with Gpu() as gpu:
        outcome = run([PYTHON, "-c", CAPTURE], gpu.group.environment(**gpu.more))
        equal(wanted, outcome, "capture")
        counters, passed = gpu.safe(), gpu.group.statistics()["passed"]
        assert counters["h2d_captured"] == 3, counters
        assert passed["copy_state"] == 3 and passed["copy_pinned"] == 1, passed
