# SPDX-License-Identifier: MIT
"""Languages: their interpreters, virtual machines and static programs."""
import glob
import os

from table import program

# What there is to see of us in a Python.
LOOK = r"""
cat >look.py <<'END'
import os, sys, threading, site
if "nosite" not in sys.argv:
    import atexit, gc, signal
    print(sorted(k for k in os.environ if not k.startswith(("LD_", "TSSHIM_"))))
    print(sys.argv, sys.flags, sys.prefix, sys.executable)
    print(sys.path, site.ENABLE_USER_SITE)
    print(sorted(os.listdir("/proc/self/fd")), threading.active_count())
    print([signal.getsignal(n) for n in range(1, 65)])
    print(sys.excepthook is sys.__excepthook__, sys.gettrace(), sys.getprofile(), sys.getrecursionlimit())
    print(sorted(n for n in sys.modules if n != "sitecustomize"), "PYTHONPATH" in os.environ, os.environ.get("PYTHONPATH"))
    print(gc.isenabled(), gc.get_threshold(), sys.stdout.encoding, sys.path_hooks.__len__(), sorted(map(str, sys.path_importer_cache)))
try:
    import not_there
except ImportError as error:
    print(type(error), error)
sys.exit(3)
END
"""

PYTHON = LOOK + r"""
for options in '' -I -E -S -s -B -O -u -Xutf8; do P $options look.py $options || echo "$?"; done
PYTHONPATH=here:there P look.py || echo "$?"
PYTHONPATH= P look.py || echo "$?"
P -c 'import sys; print(sys.argv); raise KeyError(1)' a 2>&1 || echo "$?"
echo 'print(1); 1/0' | P - 2>&1 || echo "$?"
P -m this | tail -1; P -m json.tool </dev/null 2>&1 | tail -1; P --version; P -h | head -1 | sed 's/.*python/python/'
P missing.py 2>&1 | sed 's/^[^:]*: //' || :; P -c 'import os; os.execv("/bin/echo", ["echo", os.environ.get("PYTHONPATH", "none")])'
rm -rf __pycache__
"""

VENV = r"""
/usr/bin/python3 -m venv --without-pip env
env/bin/python -c 'import sys, os; print(sys.prefix != sys.base_prefix, sys.path, os.environ.get("PYTHONPATH"))'
env/bin/python -I -c 'import sys; print(sys.path)'
echo 'import sys; sys.marked = 1' >"$(ls -d env/lib/python3.*/site-packages)/sitecustomize.py"
env/bin/python -c 'import sys; print(hasattr(sys, "marked"), "sitecustomize" in sys.modules)'; rm -rf env
"""

MULTIPROCESSING = r"""
cat >m.py <<'END'
import multiprocessing, os, sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import shared_memory
def square(x):
    return x * x, "PYTHONPATH" in os.environ
if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with context.Pool(3) as pool:
            print(method, pool.map(square, range(20)))
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            print(list(pool.map(square, range(5))))
        queue = context.Queue()
        process = context.Process(target=queue.put, args=(sys.path[1:],))
        process.start(); print(queue.get()); process.join(); print(process.exitcode)
        with context.Manager() as manager:
            print(manager.dict(a=1))
    memory = shared_memory.SharedMemory(create=True, size=100); memory.close(); memory.unlink()
    with ThreadPoolExecutor(8) as pool:
        print(sum(pool.map(len, ["abc"] * 100)))
END
/usr/bin/python3 m.py; rm -rf __pycache__
"""

ASYNCIO = r"""
cat >a.py <<'END'
import asyncio, os, signal, subprocess, sys
async def main():
    async def handle(reader, writer):
        writer.write((await reader.readline()).upper()); await writer.drain(); writer.close()
    server = await asyncio.start_unix_server(handle, "socket")
    async def ask(n):
        reader, writer = await asyncio.open_unix_connection("socket")
        writer.write(b"hello %d\n" % n); answer = await reader.readline(); writer.close(); return answer
    print(await asyncio.gather(*map(ask, range(20))))
    server.close()
    process = await asyncio.create_subprocess_exec("sh", "-c", "cat; exit 4", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    print(await process.communicate(b"text"), process.returncode)
    print(await asyncio.to_thread(os.cpu_count) > 0)
    loop = asyncio.get_running_loop(); got = loop.create_future()
    loop.add_signal_handler(signal.SIGUSR1, got.set_result, 1); os.kill(os.getpid(), signal.SIGUSR1); print(await got)
asyncio.run(main())
for options in ({}, {"close_fds": False}, {"start_new_session": True}, {"preexec_fn": lambda: os.umask(0o77)}):
    print(subprocess.run("umask; ls /proc/self/fd | wc -l; exit 2", shell=True, text=True, capture_output=True, **options))
print(subprocess.run([sys.executable, "-c", "import os; print(sorted(k for k in os.environ if k[0] != 'T'))"], env={"A": "1"}, capture_output=True, text=True))
os.unlink("socket")
END
/usr/bin/python3 a.py
"""

KERNEL = r"""
export HOME=$PWD IPYTHONDIR=$PWD/i JUPYTER_CONFIG_DIR=$PWD/c JUPYTER_RUNTIME_DIR=$PWD/r JUPYTER_PLATFORM_DIRS=1 PYTHONWARNINGS=ignore
cat >k.py <<'END'
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name="python3")
for code in ("print(6 * 7)", "!echo from a shell", "import os; print(os.environ.get('PYTHONPATH'))", "1 / 0"):
    reply = client.execute_interactive(code, timeout=60)
    print(reply["content"]["status"], reply["content"].get("ename"))
client.stop_channels(); manager.shutdown_kernel(now=False); print(manager.is_alive())
END
/usr/bin/python3 k.py 2>/dev/null; rm -rf i c r .ipython .local
"""

PERL = r"""
cat >p.pl <<'END'
use strict; use warnings; use Digest::SHA qw(sha1_hex); use File::Find; use POSIX ":sys_wait_h"; use IO::Socket::UNIX;
$0 = "a title"; $SIG{USR1} = sub { print "caught\n" }; kill USR1 => $$;
my @names; mkdir "d"; for (1..5) { open my $f, ">", "d/$_" or die; print $f $_ x 9 } find(sub { push @names, $_ }, "d"); print join(",", sort @names), "\n";
$| = 1; for my $n (1..4) { my $pid = fork // die; if (!$pid) { exit $n } waitpid $pid, 0; print $? >> 8, "\n" }
open my $p, "-|", "seq 100 | tail -1" or die; print <$p>; close $p; print sha1_hex(join ",", 1..1000), "\n"; print `ls -d /proc/self/task/* | wc -l`; warn "to stderr\n"; die { code => 1 } if @ARGV; exit 7
END
perl -T -we 'print "taint ${^TAINT}\n"'; perl p.pl
"""

RUBY = r"""
ruby -e '
puts (1..4).map { |n| Thread.new { n * n } }.map(&:value).inspect, `echo sub`, IO.popen(["seq", "3"], &:read)
4.times { |n| Process.wait fork { exit! n }; puts $?.exitstatus }
r, w = IO.pipe; spawn("echo spawned", out: w); w.close; puts r.read; Process.wait; trap("USR1") { puts "caught" }; Process.kill "USR1", $$; sleep 0.01
puts ENV.keys.reject { |k| k =~ /^(LD_|TSSHIM)/ }.sort.inspect, Dir["/proc/self/fd/*"].size; File.write "f", "x" * 9; puts File.stat("f").size; exit 6'
"""

NODE = r"""
cat >n.js <<'END'
const { Worker, isMainThread, workerData, parentPort } = require("worker_threads"); const cp = require("child_process"), fs = require("fs"), crypto = require("crypto");
if (!isMainThread) parentPort.postMessage(workerData ** 2); else (async () => {
  console.log(await Promise.all([1, 2, 3, 4].map(n => new Promise(done => new Worker(__filename, { workerData: n }).on("message", done)))));
  console.log(cp.execSync("echo sub; ulimit -n").toString(), cp.spawnSync("sh", ["-c", "exit 5"]).status, Object.keys(process.env).filter(k => !/^(LD_|TSSHIM)/.test(k)).sort());
  await Promise.all([...Array(40).keys()].map(n => fs.promises.writeFile("f" + n, "x".repeat(n)))); console.log(fs.readdirSync(".").length, fs.statSync("f9").size);
  console.log(crypto.createHash("sha256").update(fs.readFileSync("n.js")).digest("hex"), fs.readdirSync("/proc/self/fd").filter(n => n < 3));
  for (const n of Array(40).keys()) fs.unlinkSync("f" + n); console.error("to stderr"); process.exitCode = 9; })();
END
node n.js
"""

JAVA = r"""
cat >Main.java <<'END'
import java.nio.file.*; import java.util.*; import java.util.stream.*;
public class Main { public static void main(String[] a) throws Exception {
  System.out.println(IntStream.range(0, 100000).parallel().mapToLong(n -> n).sum());
  Process p = new ProcessBuilder("sh", "-c", "echo sub; exit 4").inheritIO().start(); System.out.println(p.waitFor());
  for (int n = 0; n < 30; n++) Files.writeString(Path.of("f" + n), "x".repeat(n)); try (var l = Files.list(Path.of("."))) { System.out.println(l.map(Path::toString).sorted().collect(Collectors.toList())); }
  System.out.println(new TreeSet<>(System.getenv().keySet()).stream().filter(k -> !k.startsWith("LD_") && !k.startsWith("TSSHIM")).collect(Collectors.toList()));
  List<Thread> t = new ArrayList<>(); for (int n = 0; n < 20; n++) { Thread x = new Thread(() -> { byte[] b = new byte[1 << 20]; }); x.start(); t.add(x); } for (Thread x : t) x.join();
  try { Object o = null; o.hashCode(); } catch (NullPointerException e) { System.out.println("caught"); } System.exit(6); } }
END
java -Xshare:auto -XX:+UseG1GC Main.java
"""

GO = r"""
export HOME=$PWD GOCACHE=$PWD/c GOFLAGS=-mod=mod GO111MODULE=off GOTOOLCHAIN=local
cat >m.go <<'END'
package main
import ("fmt"; "os"; "os/exec"; "sync"; "crypto/sha256")
func main() { var g sync.WaitGroup; s := make([]int, 50); for i := range s { g.Add(1); go func(i int) { s[i] = i * i; g.Done() }(i) }; g.Wait(); fmt.Println(s)
 o, _ := exec.Command("sh", "-c", "echo sub; seq 2").Output(); fmt.Print(string(o)); b, _ := os.ReadFile("m.go"); fmt.Printf("%x\n", sha256.Sum256(b)); os.Exit(8) }
END
CGO_ENABLED=0 go build -o static m.go && go vet m.go; ./static || echo "$?"; go version; rm -rf c static go
"""

RUST = r"""
mkdir -p d/e; for i in $(seq 50); do seq "$i" 500 >d/e/"$i"; done; echo needle >d/hay
rg --version | head -1; rg --no-config --sort path -c 77 d | tail -3; rg --no-config -j4 -l 499 d | sort | sha256sum; rg --no-config nowhere d || echo "$?"
rg --no-config --mmap needle d; fdfind --threads 4 . d | sort | head; fdfind -e x . d -X cat || echo "$?"; rm -r d
"""

PHP = r"""
php -n -r 'echo PHP_SAPI, "\n", array_sum(range(1, 1000)), "\n", `echo sub`; $p = proc_open("cat; exit 3", [["pipe", "r"], ["pipe", "w"]], $f); fwrite($f[0], "text\n"); fclose($f[0]); echo stream_get_contents($f[1]), proc_close($p), "\n";
file_put_contents("f", str_repeat("x", 99)); echo filesize("f"), " ", hash_file("sha256", "f"), " ", count(scandir(".")), "\n"; echo json_encode(array_values(array_filter(array_keys(getenv()), fn($k) => !preg_match("/^(LD_|TSSHIM)/", $k)))), "\n"; fwrite(STDERR, "to stderr\n"); exit(5);'
"""

LUA = r"""
lua5.4 -e 'local p = io.popen("seq 3; exit 4"); print(p:read("a")); print(p:close()); local f = io.open("f", "w"); f:write(("x"):rep(99)); f:close(); for l in io.lines("f") do print(#l) end
print(os.execute("exit 2")); print(io.open("missing")); local c = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end); print(c(), c()); os.exit(7)'
"""

R = r"""
Rscript --vanilla -e 'library(parallel); print(unlist(mclapply(1:6, function(n) n^2, mc.cores = 3))); cat(system("echo sub", intern = TRUE), "\n"); write.csv(head(mtcars), "f.csv"); print(colMeans(read.csv("f.csv")[, -1])); print(summary(lm(mpg ~ wt, mtcars))$r.squared); set.seed(1); print(rnorm(3)); quit(status = 4)'
"""


def other_pythons():
    """Interpreters beside the system's; which there are is no matter of ours."""
    patterns = ("/usr/bin/python3.[0-9]*", "/usr/bin/pypy3", "~/.pyenv/versions/*/bin/python")
    found = {}
    for pattern in patterns:
        for path in sorted(glob.glob(os.path.expanduser(pattern))):
            if not path.endswith("-config") and os.path.realpath(path) != os.path.realpath("/usr/bin/python3"):
                found.setdefault(os.path.realpath(path), path)
    return sorted(found.values())


def python(interpreter):
    return "P() { %s \"$@\"; }\n" % interpreter + PYTHON


ROWS = [
    program("languages", "python", "Python 3: no option, -I, -E, -S and others, a script, a module, "
            "standard input", python("/usr/bin/python3"), needs=("/usr/bin/python3",), core=True,
            tsrun=True),
    program("languages", "pythons", "PyPy, and whatever other Pythons there are", "\n".join(
        "P() { %s \"$@\"; }\n" % path + PYTHON for path in other_pythons()),
        needs=("pypy3",), packages=("pypy3",)),
    program("languages", "venv", "`venv`, with a `sitecustomize` of its own", VENV,
            needs=("/usr/bin/python3",), packages=("python3-venv",), core=True),
    program("languages", "multiprocessing", "multiprocessing (fork, spawn, forkserver), "
            "concurrent.futures", MULTIPROCESSING, needs=("/usr/bin/python3",)),
    program("languages", "asyncio", "asyncio and subprocess", ASYNCIO,
            needs=("/usr/bin/python3",), core=True),
    program("languages", "ipython", "IPython", r"""
export HOME=$PWD IPYTHONDIR=$PWD/i
ipython3 --no-banner --no-confirm-exit --colors=NoColor -c 'import os; print(sorted(k for k in os.environ if not k.startswith(("LD_", "TSSHIM")))); get_ipython().system("echo sub")'; rm -rf i .cache
""", needs=("ipython3",), packages=("ipython3",)),
    program("languages", "jupyter", "a kernel of Jupyter's", KERNEL,
            needs=("/usr/lib/python3/dist-packages/ipykernel",), packages=("python3-ipykernel",)),
    program("languages", "perl", "Perl", PERL, status=7, core=True),
    program("languages", "ruby", "Ruby", RUBY, status=6, packages=("ruby",)),
    program("languages", "node", "Node.js", NODE, status=9, packages=("nodejs",)),
    program("languages", "java", "Java", JAVA, status=6, packages=("openjdk-17-jdk-headless",), tsrun=True),
    program("languages", "go", "the Go tool, and a static program of its", GO,
            packages=("golang-go",)),
    program("languages", "rust", "programs in Rust (ripgrep, fd)", RUST, needs=("rg", "fdfind"),
            packages=("ripgrep", "fd-find")),
    program("languages", "php", "PHP", PHP, status=5, packages=("php-cli",)),
    program("languages", "lua", "Lua", LUA, status=7, needs=("lua5.4",), packages=("lua5.4",)),
    program("languages", "R", "R, with forks", R, status=4, needs=("Rscript",), packages=("r-base-core",)),
]
