# SPDX-License-Identifier: MIT
"""The table of neighbours: which programs are run, plain and under the library, and how."""
import collections

# The columns of a row:
#   kind      a heading of docs/programs.md
#   name      unique; names the test, and its script, in scripts/
#   programs  what is tried, for people, in the order of the commands
#   status    the script's exit status, or less than nothing for a signal
#   needs     commands, or patterns of files, that have to be there
#   packages  of Debian that bring them, beyond those of `scripts/deps test`
#   core      runs in everyday CI, with what `scripts/deps test` installs; else with --whole only
#   tsrun     also under `tsrun --`
#   jobs      how many run at once under the library
#   may       words of a plain run's messages that say that it cannot work here: a skip
Program = collections.namedtuple(
    "Program", "kind name programs status needs packages core tsrun jobs may")

REFUSED = ("ermitted", "ermission", "not supported", "not implemented")


def program(kind, name, programs, status=0, needs=None, packages="", core=False, tsrun=False,
            jobs=1, may=()):
    """A row; what it needs is the command of that name where nothing else is said."""
    return Program(kind, name, programs, status, (needs or name).split(), packages.split(), core,
                   tsrun, jobs, may)


ROWS = (
    program("shells", "facts",
            "what a process is given: environment, descriptors, limits, signals, umask, threads, "
            "memory, names in its map, `ldd`",
            needs="sh", core=True, tsrun=True),
    program("shells", "bash", "bash", status=5, core=True, tsrun=True),
    program("shells", "dash", "dash", status=143, core=True),
    program("shells", "zsh", "zsh", status=4, packages="zsh"),
    program("shells", "busybox", "busybox (static)", status=6, core=True, tsrun=True),
    program("shells", "coreutils", "coreutils, sed, awk, grep, diff, sort with threads",
            needs="sort", core=True, tsrun=True),
    program("shells", "make", "make -j", core=True, tsrun=True),
    program("shells", "xargs", "xargs -P", core=True),
    program("shells", "find", "find, with -exec", core=True),
    program("shells", "tar", "tar with zstd, gzip and xz", needs="tar zstd gzip xz",
            packages="zstd xz-utils"),
    program("shells", "git", "git init, commit, clone, gc, fsck", core=True),
    program("shells", "rsync", "rsync", core=True),
    program("shells", "ssh", "ssh-keygen, ssh -V, ssh-agent", needs="ssh ssh-keygen ssh-agent",
            packages="openssh-client"),
    program("shells", "sudo", "sudo and su (setuid) as another user", needs="sudo su setpriv",
            packages="sudo", may=("needs root",)),
    program("shells", "gdb", "gdb, with its own Python", packages="gdb"),
    program("shells", "strace", "strace -f", core=True),
    program("shells", "ltrace", "ltrace", packages="ltrace"),
    program("shells", "valgrind", "valgrind: memcheck, helgrind", packages="valgrind"),
    program("shells", "perf", "perf stat", packages="linux-perf",
            may=("not supported", "permission", "not permitted", "perf not found",)),
    program("shells", "script", "script, a terminal of its own", core=True),
    program("languages", "python",
            "Python 3: no option, -I, -E, -S and others, a script, a module, standard input",
            needs="/usr/bin/python3", core=True, tsrun=True),
    program("languages", "pythons", "PyPy, and whatever other Pythons there are", needs="pypy3",
            packages="pypy3"),
    program("languages", "venv", "`venv`, with a `sitecustomize` of its own",
            needs="/usr/bin/python3", packages="python3-venv", core=True),
    program("languages", "multiprocessing",
            "multiprocessing (fork, spawn, forkserver), concurrent.futures",
            needs="/usr/bin/python3"),
    program("languages", "asyncio", "asyncio and subprocess", needs="/usr/bin/python3", core=True),
    program("languages", "ipython", "IPython", needs="ipython3", packages="ipython3"),
    program("languages", "jupyter", "a kernel of Jupyter's",
            needs="/usr/lib/python3/dist-packages/ipykernel", packages="python3-ipykernel"),
    program("languages", "perl", "Perl", status=7, core=True),
    program("languages", "ruby", "Ruby", status=6, packages="ruby"),
    program("languages", "node", "Node.js", status=9, packages="nodejs"),
    program("languages", "java", "Java", status=6, packages="openjdk-17-jdk-headless", tsrun=True),
    program("languages", "go", "the Go tool, and a static program of its", packages="golang-go"),
    program("languages", "rust", "programs in Rust (ripgrep, fd)", needs="rg fdfind",
            packages="ripgrep fd-find"),
    program("languages", "php", "PHP", status=5, packages="php-cli"),
    program("languages", "lua", "Lua", status=7, needs="lua5.4", packages="lua5.4"),
    program("languages", "R", "R, with forks", status=4, needs="Rscript", packages="r-base-core"),
    program("preloads", "jemalloc", "jemalloc", needs="djpeg /usr/lib/*/libjemalloc.so.2",
            packages="libjemalloc2", core=True, jobs=2),
    program("preloads", "tcmalloc", "tcmalloc", needs="djpeg /usr/lib/*/libtcmalloc_minimal.so.4",
            packages="libtcmalloc-minimal4", jobs=2),
    program("preloads", "mimalloc", "mimalloc", needs="djpeg /usr/lib/*/libmimalloc.so.2*",
            packages="libmimalloc2.0", jobs=2),
    program("preloads", "faketime", "libfaketime", packages="faketime"),
    program("preloads", "fakeroot", "fakeroot", packages="fakeroot"),
    program("preloads", "eatmydata", "eatmydata", needs="eatmydata sqlite3", packages="eatmydata"),
    program("preloads", "nss_wrapper", "libnss_wrapper", needs="/usr/lib/*/libnss_wrapper.so",
            packages="libnss-wrapper"),
    program("preloads", "stdbuf", "stdbuf", needs="stdbuf djpeg", core=True),
    program("preloads", "proxychains", "proxychains", needs="proxychains4",
            packages="proxychains4"),
    program("preloads", "asan", "AddressSanitizer: clang's, gcc's static", needs="gcc clang",
            packages="clang"),
    program("preloads", "asan_shared",
            "AddressSanitizer: gcc's shared one, told not to look who comes first; the others",
            needs="gcc"),
    program("pictures", "libjpeg", "djpeg, cjpeg, jpegtran, rdjpgcom",
            needs="djpeg cjpeg jpegtran rdjpgcom", core=True, tsrun=True, jobs=2),
    program("pictures", "imagemagick", "ImageMagick", needs="convert identify montage compare",
            packages="imagemagick", jobs=2),
    program("pictures", "ffmpeg", "FFmpeg, which has decoders of its own", needs="ffmpeg ffprobe",
            packages="ffmpeg", jobs=2),
    program("pictures", "gdal", "GDAL", needs="gdalinfo gdal_translate gdalwarp",
            packages="gdal-bin", jobs=2),
    program("pictures", "exiftool", "ExifTool", packages="libimage-exiftool-perl"),
    program("pictures", "webp", "cwebp, which reads JPEG", needs="cwebp dwebp webpinfo",
            packages="webp", jobs=2),
    program("pictures", "pillow", "Pillow, NumPy and OpenCV",
            needs="/usr/lib/python3/dist-packages/PIL /usr/lib/python3/dist-packages/cv2*",
            core=True, jobs=2),
    program("servers", "sqlite", "SQLite", needs="sqlite3", core=True),
    program("servers", "redis", "Redis, with a fork that rewrites its log",
            needs="redis-server redis-cli", packages="redis-server"),
    program("servers", "memcached", "memcached", packages="memcached"),
    program("servers", "nginx", "nginx: its configuration, and pages from two workers",
            packages="nginx-light"),
    program("servers", "postgres", "PostgreSQL: initdb, parallel workers",
            needs="/usr/lib/postgresql/*/bin/initdb psql", packages="postgresql",
            may=("could not access",)),
    program("sandboxes", "unshare", "unshare and nsenter", needs="unshare nsenter djpeg", core=True,
            may=REFUSED),
    program("sandboxes", "chroot", "chroot, into a static world and a dynamic one",
            needs="chroot busybox", core=True, may=REFUSED),
    program("sandboxes", "bubblewrap", "bubblewrap", needs="bwrap djpeg", packages="bubblewrap",
            may=REFUSED),
    program("sandboxes", "firejail", "firejail", packages="firejail", may=REFUSED),
    program("sandboxes", "seccomp",
            "setpriv: no new privileges, capabilities; prlimit; taskset; setsid; chrt; flock",
            needs="setpriv prlimit taskset djpeg", core=True),
    program("sandboxes", "tmux", "tmux", packages="tmux"),
    program("sandboxes", "screen", "screen", packages="screen"),
    program("sandboxes", "mpi", "Open MPI", needs="mpicc mpirun",
            packages="openmpi-bin libopenmpi-dev"),
    program("sandboxes", "parallel", "GNU parallel", packages="parallel"),
    program("builds", "gcc", "gcc, ld, ar, as, with link-time optimisation", core=True),
    program("builds", "clang", "clang", packages="clang"),
    program("builds", "ccache", "ccache", packages="ccache"),
    program("builds", "cmake", "CMake with Ninja", needs="cmake ninja",
            packages="cmake ninja-build"),
    program("builds", "meson", "Meson", needs="meson ninja"),
    program("builds", "pip", "pip, of a wheel", needs="/usr/lib/python3*/ensurepip",
            packages="python3-venv"),
    program("builds", "apt", "dpkg, dpkg-deb, apt-cache", needs="dpkg-deb apt-cache"),
)
assert len({row.name for row in ROWS}) == len(ROWS), "a name is there twice"
