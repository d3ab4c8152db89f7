# SPDX-License-Identifier: MIT
"""
What else decides the bytes of a sample: interpreter, versions of libraries, switches, variables,
the machine.  Not the number of threads of PyTorch: whoever shares samples makes them with one.
Not the working directory, which is another one for each job of a sweep: files of a sample are
opened anew and compared at each hit, and a relative name leads there where it leads the reader.
"""

import ctypes
import functools
import hashlib
import locale
import os
import platform
import re
import sys
import types
import warnings
from operator import is_

from . import arrays, library
from .walk import Unknown, joined

PACKAGES = ("torch", "torchvision", "numpy", "PIL", "cv2",
            "intel_extension_for_pytorch", "mkl_umath")  # these put kernels in place of others
VARIABLES = ("ATEN_", "MKL_", "OMP_", "OPENBLAS_", "KMP_", "DNNL_", "ONEDNN_", "NPY_", "OPENCV_",
             "JSIMD_", "LC_", "IPP_", "BLIS_", "GOTO_")
VARIABLE_NAMES = ("LANG", "LANGUAGE", "TZ", "PYTHONUTF8", "GLIBC_TUNABLES", "LD_BIND_NOW")
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")  # torch.set_num_threads rules over them
# Shared objects whose machine code makes samples, by the beginning of their names.
# Not what libraries load when they first need it: that would change while a program runs.
OBJECTS = re.compile(
    rb"/(?:libtorch_cpu|libtorch_python|libc10\.|libmkl_core|libmkl_rt|libopenblas|libblas|"
    rb"liblapack|libgomp|libomp|libiomp5|libjpeg|libturbojpeg|libz|libm[.-]|libc[.-]|"
    rb"libstdc\+\+|_multiarray_umath|_imaging\.|cv2)[^/]*$")
SWITCHES = (
    "get_default_dtype", "are_deterministic_algorithms_enabled",
    "is_deterministic_algorithms_warn_only_enabled", "get_float32_matmul_precision",
    "is_grad_enabled", "is_inference_mode_enabled", "_C._get_mkldnn_enabled",
    "_C._get_nnpack_enabled", "_C._get_default_device", "_C._get_qengine",
    "_C._get_mkldnn_deterministic", "_C._get_cpu_allow_fp16_reduced_precision_reduction")

# Of PyTorch 2.9 on; the older switches do not tell all of them.
PRECISIONS = ("backends", "backends.mkldnn", "backends.mkldnn.conv", "backends.mkldnn.matmul",
              "backends.mkldnn.rnn")
PRINTING = ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")


def environment():
    """
    16 bytes for everything outside of the dataset that can change a sample.  Raises Unknown and
    nothing else.  The first call reads files, later ones cost some hundred microseconds.
    """
    try:
        loaded = tuple(name for name in PACKAGES if name in sys.modules)
        parts = [_software(loaded), _machine(), *_variables()]
        parts += [_text(part) for part in (
            _switches(), _image_switches(), _tables(), _formats(), _arithmetic(), _manners(),
            _limits(), sys.flags.optimize, sys.getfilesystemencoding(),
            locale.getpreferredencoding(False),
            locale.setlocale(locale.LC_ALL))]
        return hashlib.blake2b(joined(parts), digest_size=16).digest()
    except Unknown:
        raise
    except Exception as error:
        raise Unknown("internal", "%s: %s" % (type(error).__name__, error)) from error


def blas_threads():
    """
    Text for the number of threads that sums of NumPy's are split between: torch.set_num_threads()
    rules over few of the libraries.  Takes half a millisecond.
    """
    paths = sorted(set(_BLAS.findall(arrays.maps())))
    found = [os.environ.get(name) for name in THREADS] + [len(os.sched_getaffinity(0))]
    for path in paths:
        library = ctypes.CDLL(os.fsdecode(path), os.RTLD_NOLOAD | os.RTLD_NOW)
        found += [getattr(library, name)() for name in _BLAS_COUNTS if hasattr(library, name)]
        # What OPENBLAS_CORETYPE made it choose: that is read when it is loaded.
        for name in _BLAS_CORES:
            if hasattr(library, name):
                getattr(library, name).restype = ctypes.c_char_p
                found.append(getattr(library, name)())
    return _text(found)


_BLAS = re.compile(rb" (/\S*/lib[^/\s]*(?:openblas|mkl_rt|blis)[^/\s]*)$", re.M)
_BLAS_COUNTS = [prefix + "openblas_get_num_threads" + suffix for prefix in ("", "scipy_")
                for suffix in ("", "64_", "_64")]
_BLAS_CORES = [name.replace("num_threads", "corename") for name in _BLAS_COUNTS]
_BLAS_COUNTS += ["MKL_Get_Max_Threads", "bli_thread_get_num_threads"]


def gpu():
    """
    Text for the GPU of this process, b"" where it uses none: what items compute there depends on
    it.  For a process that makes the program's items itself; a forked worker has none.
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return b""
    kind, backends = torch.cuda.get_device_properties(torch.cuda.current_device()), torch.backends
    return _text((kind.name, kind.major, kind.minor, kind.total_memory, kind.multi_processor_count,
                  backends.cudnn.version(), backends.cudnn.benchmark, backends.cudnn.deterministic,
                  backends.cudnn.allow_tf32, backends.cuda.matmul.allow_tf32))


def _printing(options):
    """NumPy's @options for printing, in which functions may stand."""
    formatter = options.get("formatter") or {}
    return {**options, "formatter": sorted((kind, _formatter(made)) for kind, made in formatter.items())}


def _formatter(function):
    """Text for a @function that prints numbers: a method of a text is that; any other one is nobody else's."""
    if type(function) is types.BuiltinFunctionType and type(function.__self__) is str:
        return repr((function.__name__, function.__self__))
    return repr(function)


def _manners():
    """How numbers are printed, and which warnings and errors of arithmetic are exceptions."""
    found = [warnings.defaultaction]
    if any(entry[0] == "error" for entry in warnings.filters):  # the first that fits decides
        found += [(entry[0], _pattern(entry[1]), entry[2].__qualname__, _pattern(entry[3]),
                   entry[4]) for entry in warnings.filters]
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None:
        found.append([getattr(torch._tensor_str.PRINT_OPTS, name) for name in PRINTING])
    if numpy is not None:
        found += [numpy.geterr(), _printing(numpy.get_printoptions()), numpy.getbufsize()]
        found.append(getattr(numpy, "_get_promotion_state", bool)())
    return found


def _pattern(pattern):
    return getattr(pattern, "pattern", pattern)


def _limits():
    """What decides whether there is an error instead of a result."""
    return (sys.getrecursionlimit(), getattr(sys, "get_int_max_str_digits", int)())


def _text(value):
    return repr(value).encode("utf-8", "surrogateescape")


@functools.lru_cache(maxsize=None)
def _software(loaded):
    """The interpreter and the @loaded packages: their first files, extensions and objects."""
    parts = [sys.version.encode(), platform.python_implementation().encode()]
    for name in loaded:
        module = sys.modules[name]
        parts.append(_text((name, library.module_dict(module).get("__version__"))))
        for other in (name, name + ".version", name + "._version", name + ".functional"):
            if other in sys.modules:
                parts.append(library.module_content(sys.modules[other]))
    return joined(parts + _objects() + _preloaded())


def _preloaded():
    """What stands in front of the C library's functions, exp() for instance, besides us."""
    with open("/proc/self/environ", "rb", buffering=0) as file:
        names = b" ".join(each.partition(b"=")[2] for each in file.readall().split(b"\0")
                          if each.startswith(b"LD_PRELOAD="))
    names = [os.fsdecode(name) for name in re.split(b"[ :]+", names)
             if name and b"libtsshim" not in name]
    return [library.content(name) if os.path.isfile(name) else os.fsencode(name)
            for name in names]


def _objects():
    paths = {line.partition(b"/")[2] for line in arrays.maps().split(b"\n")
             if b" r-xp " in line and b"/" in line}
    paths = sorted(b"/" + path for path in paths)
    wanted = [path for path in paths if OBJECTS.search(path) and b"scipy" not in path]
    return [library.content(os.fsdecode(path)) for path in wanted]


@functools.lru_cache(maxsize=None)
def _machine():
    """What the libraries choose their code by."""
    wanted = {}
    with open("/proc/cpuinfo", "rb") as file:
        for line in file:
            name, _, value = line.partition(b":")
            if name.strip() in (b"vendor_id", b"cpu family", b"model", b"flags", b"Features",
                                b"CPU implementer", b"CPU part"):
                wanted.setdefault(name.strip(), value.strip())
    return joined([os.uname().machine.encode()] + [joined(pair) for pair in sorted(wanted.items())])


def _variables():
    wanted = sorted(name for name in os.environ if name not in THREADS
                    and (name.startswith(VARIABLES) or name in VARIABLE_NAMES))
    return [os.fsencode("%s=%s" % (name, os.environ[name])) for name in wanted]


def _at(owner, path):
    """What is at the dotted @path from @owner, or None."""
    for name in path.split("."):
        owner = getattr(owner, name, None)
    return owner


def _switches():
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    state = []
    for path in SWITCHES:
        function = _at(torch, path)
        state.append((path, str(function()) if callable(function) else None))
    if hasattr(torch._C, "_get_cpu_capability"):  # what a variable did that was read long ago
        state.append(torch._C._get_cpu_capability())
    numpy = sys.modules.get("numpy")
    core = getattr(numpy, "_core", None) or getattr(numpy, "core", None)
    features = _at(core, "_multiarray_umath.__cpu_features__") or {}
    state.append(sorted(name for name in features if features[name]))
    state += [_at(torch, path + ".fp32_precision") for path in PRECISIONS]
    if hasattr(torch, "get_autocast_dtype"):  # the older names warn since PyTorch 2.4
        state += [torch.is_autocast_enabled("cpu"), str(torch.get_autocast_dtype("cpu"))]
    elif hasattr(torch, "is_autocast_cpu_enabled"):
        state += [torch.is_autocast_cpu_enabled(), str(torch.get_autocast_cpu_dtype())]
    return state


def _image_switches():
    opencv = sys.modules.get("cv2")
    return (getattr(sys.modules.get("PIL.ImageFile"), "LOAD_TRUNCATED_IMAGES", False),
            getattr(sys.modules.get("PIL.Image"), "MAX_IMAGE_PIXELS", None),
            getattr(sys.modules.get("torchvision"), "_image_backend", None),
            opencv.useOptimized() if hasattr(opencv, "useOptimized") else None,
            opencv.ipp.useIPP() if hasattr(opencv, "ipp") else None)


# Tables that programs edit in place, to read what is not read otherwise.
_EDITED = (("PIL.TiffImagePlugin", "OPEN_INFO"), ("PIL.Image", "_fromarray_typemap"),
           ("PIL.Image", "_MODE_CONV"), ("PIL.JpegImagePlugin", "RAWMODE"),
           ("PIL.JpegImagePlugin", "MARKER"), ("PIL.ImageColor", "colormap"),
           ("PIL.PngImagePlugin", "_MODES"),
           ("torchvision.transforms.functional", "pil_modes_mapping"))


def _tables():
    """Those that are not as their module begins with."""
    found = []
    for name, table in _EDITED:
        now = getattr(sys.modules.get(name), table, None)
        if now is None or _is_as_seen(now, *_seen.get((name, table), ((), ()))):
            continue
        if _normal(now) == _first(name, table):
            _seen[name, table] = list(now.keys()), list(now.values())
        else:
            found.append((name, table, list(_normal(now).items())))
    return found


_seen = {}  # (module, table) -> keys and values, which do not change, of one that was as at first


def _is_as_seen(now, keys, values):
    return len(keys) == len(now) and all(map(is_, now.keys(), keys)) and \
        all(map(is_, now.values(), values))


def _normal(table):
    """@table with the numbers of colours, which Pillow writes in the place of their text."""
    return {key: tuple(bytes.fromhex(value[1:])) if type(value) is str and
            _COLOUR.fullmatch(value) else value for key, value in table.items()}


_COLOUR = re.compile("#[0-9a-f]{6}")


# A table as their sources have them: on one line, or up to a brace that begins one.
_TABLE = r"(?ms)^%s\b[^\n=]*=[ ]*(\{[^\n]*\}|\{.*?^\})[ ]*$"


@functools.lru_cache(maxsize=None)
def _first(name, table):
    """
    _normal() of what the source of module @name gives @table at first, or None if that cannot be
    told.
    """
    module = sys.modules[name]
    with open(module.__file__, encoding="utf-8") as file:
        # Reading all of it as Python would take 100 ms.
        found = re.search(_TABLE % re.escape(table), file.read())
    try:
        return found and _normal(eval(found[1], dict(vars(module))))
    except SyntaxError:
        return None


def _formats():
    """
    Which formats Pillow would try, as far as the program had a say.  Its own are registered when
    it first needs them, and make no difference by that.
    """
    image = sys.modules.get("PIL.Image")
    if image is None:
        return None
    gif = getattr(sys.modules.get("PIL.GifImagePlugin"), "LOADING_STRATEGY", None)
    found = [getattr(gif, "name", "RGB_AFTER_FIRST"),  # that of who has not loaded it
             [name for name in _FIRST if image._initialized and name not in image.ID]]
    order = list(image.ID)
    for module, name, default in _PILLOW:
        found.append(getattr(sys.modules.get("PIL." + module), name, default))
    own = [name for name in order if _is_own(name, image.OPEN.get(name))]
    if own != order or any(name not in own for name in image.OPEN):
        found += [order, [(name, [_named(part) for part in parts])
                          for name, parts in image.OPEN.items()]]
    return found


_FIRST = ("BMP", "GIF", "JPEG", "PPM", "PNG")  # that Pillow registers before all others


# What programs set in modules that Pillow loads when it needs them, and how they come.
_PILLOW = (("PngImagePlugin", "MAX_TEXT_CHUNK", 1 << 20),
           ("PngImagePlugin", "MAX_TEXT_MEMORY", 64 << 20),
           ("TiffImagePlugin", "READ_LIBTIFF", False))


def _is_own(name, opener):
    """Whether Pillow itself opens files of the format @name by @opener."""
    return opener is not None and _named(opener[0]).startswith("PIL.") and (
        str(getattr(opener[0], "format", "JPEG")).upper() == name)


def _named(value):
    return "%s.%s" % (getattr(value, "__module__", None), getattr(value, "__qualname__", None))


def _arithmetic():
    """
    Whether this thread rounds what is nearly zero to zero (torch.set_flush_denormal), and which
    way it rounds.
    """
    smallest, one, little = sys.float_info.min, float("1"), sys.float_info.epsilon / 4
    return (smallest / 4 == 0.0, (smallest - smallest / 2) * 2 == 0.0, float("5e-324") * 1e300 == 0,
            one + little == one, -one - little == -one, one - little / 2 == one)
