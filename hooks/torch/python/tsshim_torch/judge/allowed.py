# SPDX-License-Identifier: MIT
"""
What libraries offer that depends on nothing but arguments, files and known generators.

Every row was read.  A name that is not here is refused; being here costs nothing where the
library is not loaded or has no such name.  The users of these tables check that what a name
is bound to now is what its library bound it to.
"""

from collections import namedtuple

TORCH, PYTHON, NUMPY = "torch", "python", "numpy"  # generators

# ---- classes whose instances may take part: module -> {generators: names} ----

_V2 = "torchvision.transforms.v2."

TRANSFORMS = {
    "torchvision.transforms.transforms": {
        (): ("Compose ToTensor PILToTensor ConvertImageDtype ToPILImage Normalize Resize "
             "CenterCrop Pad FiveCrop TenCrop LinearTransformation Grayscale Lambda"),
        (TORCH,): ("RandomApply RandomCrop RandomHorizontalFlip RandomVerticalFlip "
                   "RandomResizedCrop ColorJitter RandomRotation RandomAffine "
                   "RandomGrayscale RandomPerspective RandomErasing GaussianBlur RandomInvert "
                   "RandomPosterize RandomSolarize RandomAdjustSharpness RandomAutocontrast "
                   "RandomEqualize ElasticTransform"),
        (PYTHON,): "RandomChoice RandomOrder",
    },
    "torchvision.transforms.autoaugment": {
        (TORCH,): "AutoAugment RandAugment TrivialAugmentWide AugMix",
    },
    _V2 + "_transform": {(): "Transform"},
    _V2 + "_container": {(): "Compose", (TORCH,): "RandomApply RandomChoice RandomOrder"},
    _V2 + "_type_conversion": {(): "PILToTensor ToImage ToPILImage ToPureTensor"},
    _V2 + "_deprecated": {(): "ToTensor"},
    _V2 + "_augment": {(TORCH,): "RandomErasing JPEG"},
    _V2 + "_auto_augment": {(TORCH,): "AutoAugment RandAugment TrivialAugmentWide AugMix"},
    _V2 + "_color": {
        (): "Grayscale RGB",
        (TORCH,): ("RandomGrayscale ColorJitter RandomChannelPermutation "
                   "RandomPhotometricDistort RandomEqualize RandomInvert RandomPosterize "
                   "RandomSolarize RandomAutocontrast RandomAdjustSharpness"),
    },
    _V2 + "_geometry": {
        (): "Resize CenterCrop FiveCrop TenCrop Pad",
        (TORCH,): ("RandomHorizontalFlip RandomVerticalFlip RandomResizedCrop RandomZoomOut "
                   "RandomRotation RandomAffine RandomCrop RandomPerspective ElasticTransform "
                   "RandomIoUCrop ScaleJitter RandomShortestSize RandomResize"),
    },
    _V2 + "_meta": {(): "ConvertBoundingBoxFormat ClampBoundingBoxes ClampKeyPoints"},
    _V2 + "_misc": {
        (): ("Identity Lambda LinearTransformation Normalize ToDtype ConvertImageDtype "
             "SanitizeBoundingBoxes SanitizeKeyPoints"),
        (TORCH,): "GaussianBlur GaussianNoise",
    },
    _V2 + "_temporal": {(): "UniformTemporalSubsample"},
    "torch.nn.modules.container": {(): "Sequential"},
    "torch.nn.modules.linear": {(): "Identity"},
}
DATASETS = {
    "torchvision.datasets.folder": {(): "ImageFolder DatasetFolder"},
    "torchvision.datasets.imagenet": {(): "ImageNet"},
    "torchvision.datasets.cifar": {(): "CIFAR10 CIFAR100"},
    "torchvision.datasets.mnist": {(): "MNIST FashionMNIST KMNIST EMNIST"},
    "torchvision.datasets.food101": {(): "Food101"},
    "torchvision.datasets.flowers102": {(): "Flowers102"},
    "torchvision.datasets.vision": {(): "StandardTransform VisionDataset"},
    "torch.utils.data.dataset": {(): "Subset ConcatDataset TensorDataset"},
}
# What classes of the user's may be derived from besides the classes above.  An item is asked
# of them by nobody but their own methods, so these are checked where they are called.
BASES = ("builtins.object", "typing.Generic", "abc.ABC", "torch.utils.data.dataset.Dataset",
         "torch.nn.modules.module.Module")
# Methods of the classes above that no item and no transform calls.
INIT_ONLY = frozenset(("__init__", "find_classes", "make_dataset", "download",
                       "_check_exists", "_check_integrity", "_load_data"))

# Instances of these hold numbers or names only.
VALUES = frozenset((
    ("torchvision.transforms.functional", "InterpolationMode"),
    ("torchvision.transforms.autoaugment", "AutoAugmentPolicy"),
    ("pathlib", "PosixPath"), ("pathlib", "PurePosixPath"), ("re", "Pattern"),
    ("pathlib._local", "PosixPath"), ("pathlib._local", "PurePosixPath"),  # of Python 3.13
    ("builtins", "range"), ("builtins", "ellipsis"), ("builtins", "NotImplementedType")))

# What the classes above work with: no function of these may have been replaced.
MODULES = (
    "torchvision.transforms.functional", "torchvision.transforms.functional_pil",
    "torchvision.transforms._functional_pil", "torchvision.transforms.functional_tensor",
    "torchvision.transforms._functional_tensor", "torchvision.datasets.folder",
    "torchvision.datasets.vision", "PIL.Image", "PIL.ImageFile", "PIL.ImageOps",
    "PIL.ImageEnhance", "PIL.ImageFilter", "PIL.JpegImagePlugin", "PIL.PngImagePlugin",
    "torchvision.io.image", "random", "torch._C._nn", "torch.functional", "torch.nn.functional",
    "numpy.core.fromnumeric", "numpy.core._methods", "numpy.lib.arraypad",
    "numpy._core.fromnumeric", "numpy._core._methods", "numpy.lib._arraypad_impl")
V2_MODULES = tuple(_V2 + name for name in (
    "_transform", "_utils", "functional", "functional._augment", "functional._color",
    "functional._deprecated", "functional._geometry", "functional._meta", "functional._misc",
    "functional._temporal", "functional._type_conversion", "functional._utils")) + (
    "torchvision.tv_tensors", "torchvision.tv_tensors._tv_tensor",
    "torchvision.tv_tensors._image", "torch.utils._pytree")


# ---- functions and classes that code of the user's may call ----

# How something may be called.
# .result  "fresh": what was made just now; "plain": an immutable; "any"
# .limit   of positional arguments; what comes after them is changed in place.  None: any
#          number, so that it may also be passed on and called by others
# .draws   the generator it draws from, or None
# .rule    name of a rule of its own in reader.py, or None
Call = namedtuple("Call", "result limit draws rule", defaults=("any", None, None, None))

# Keywords by which something that exists is changed, or drawn from.  Functions whose limit is
# None take them by keyword only, or not at all.
KEYWORDS = frozenset(("out", "dst", "generator", "inplace", "in_place", "where", "mmap_mode",
                      "allow_pickle", "device", "opener", "cls", "object_hook",
                      "object_pairs_hook", "parse_float", "parse_int", "parse_constant",
                      "overwrite_input", "mv", "memo", "_nil"))
# The same for what is called without knowing what it is.  With `where`, an array's clip() hands
# out memory that nobody wrote.
CHANGING_KEYWORDS = frozenset(("out", "dst", "generator", "inplace", "in_place", "where"))

_ANY, _FRESH, _PLAIN = Call(), Call("fresh"), Call("plain")
_ONE, _TWO, _THREE = Call("any", 1), Call("any", 2), Call("any", 3)

_FUNCTIONAL = (
    "to_tensor pil_to_tensor convert_image_dtype to_pil_image resize pad crop center_crop "
    "resized_crop hflip vflip five_crop ten_crop adjust_brightness adjust_contrast "
    "adjust_saturation adjust_hue adjust_gamma adjust_sharpness rotate affine perspective "
    "to_grayscale rgb_to_grayscale gaussian_blur invert posterize solarize autocontrast "
    "equalize get_dimensions get_image_size get_image_num_channels")

CALLS = {
    "builtins": (
        (_PLAIN, "len int float bool str bytes complex range ord chr"),
        (_ANY, "abs round min max sum enumerate zip reversed map filter tuple slice iter next "
               "any all divmod pow callable repr"),
        (_FRESH, "list dict sorted bytearray"),
        (Call("fresh", rule="set"), "set"), (Call("any", rule="set"), "frozenset"),
        (Call("plain", 2, rule="isinstance"), "isinstance issubclass"),
        (Call("any", 3, rule="getattr"), "getattr"), (Call("plain", 2, rule="getattr"), "hasattr"),
        (Call("any", 1, rule="super"), "super"),
        (Call("fresh", 2, rule="open"), "open"),
        (_ANY, "ValueError TypeError KeyError IndexError RuntimeError AssertionError "
               "NotImplementedError StopIteration OSError FileNotFoundError Exception")),
    "math": ((_ANY, "ceil floor sqrt exp log log2 log10 pow sin cos tan asin acos atan atan2 "
                    "hypot degrees radians fabs fmod gcd isclose isnan isinf isfinite copysign "
                    "trunc prod fsum tanh comb factorial"),),
    "posixpath": ((_ANY, "join basename dirname splitext split normpath commonprefix"),),
    "os": ((_ANY, "fspath"),),
    "json": ((Call("fresh", 1), "loads load"),),
    "io": ((_FRESH, "BytesIO StringIO"),),
    "copy": ((Call("fresh", 1), "deepcopy"),),
    "re": ((_ANY, "compile match search fullmatch sub split findall finditer"),),
    "functools": ((_ANY, "partial reduce"),),
    "itertools": ((_ANY, "chain product repeat islice zip_longest combinations permutations "
                         "accumulate count starmap takewhile"),),
    "collections": ((_FRESH, "OrderedDict defaultdict Counter deque"),),
    "random": ((Call("any", draws=PYTHON),
                "random uniform randint choice choices sample randrange gauss normalvariate "
                "betavariate gammavariate expovariate triangular getrandbits lognormvariate"),
               (Call("any", 1, draws=PYTHON, rule="shuffle"), "shuffle")),
    "PIL.Image": ((Call("fresh", 1), "open"),
                  (_FRESH, "new"), (_ANY, "fromarray merge blend composite frombytes")),
    "PIL.ImageOps": ((_ANY, "autocontrast equalize flip mirror invert grayscale fit pad expand "
                            "crop posterize solarize colorize contain scale exif_transpose"),),
    "PIL.ImageEnhance": ((_ANY, "Color Contrast Brightness Sharpness"),),
    "PIL.ImageFilter": ((_ANY, "GaussianBlur BoxBlur MedianFilter UnsharpMask MinFilter "
                               "MaxFilter ModeFilter"),),
    "torchvision.datasets.folder": ((_ANY, "default_loader pil_loader"),),
    "torchvision.io": ((_TWO, "read_image decode_image decode_jpeg decode_png read_file"),),
    "torchvision.transforms.functional": ((_ANY, _FUNCTIONAL), (_THREE, "normalize")),
    "torchvision.transforms.v2.functional": (
        (_ANY, _FUNCTIONAL + " to_image to_dtype to_pure_tensor horizontal_flip vertical_flip"),
        (_THREE, "normalize")),
    "torch": (
        (_ANY, "from_numpy as_tensor where clamp sqrt exp log log2 log10 log1p abs sin cos tan "
               "flip fliplr flipud rot90 roll mean std var sum prod min max argmax argmin amin "
               "amax nonzero meshgrid logical_and logical_or logical_not logical_xor isnan "
               "isfinite isinf floor ceil round pow maximum minimum sigmoid softmax tanh "
               "outer matmul bmm mm mv dot unique sort argsort topk cumsum cumprod broadcast_to "
               "squeeze unsqueeze transpose permute movedim reshape flatten split chunk narrow "
               "gather is_tensor numel tril triu diag add sub mul div eq ne lt le gt ge all any "
               "allclose equal bincount searchsorted cdist cross sign square no_grad "
               "inference_mode Size device"),
        (_FRESH, "tensor zeros ones full eye arange linspace zeros_like ones_like full_like "
                 "stack cat concat hstack vstack clone"),
        (Call("fresh", draws=TORCH), "rand randn randint randperm rand_like randn_like "
                                     "randint_like normal bernoulli multinomial poisson")),
    "torch.nn.functional": (
        (_ANY, "interpolate pad one_hot softmax log_softmax avg_pool2d max_pool2d grid_sample "
               "affine_grid conv2d conv1d unfold cosine_similarity"), (_THREE, "normalize")),
    "numpy": (
        (_FRESH, "array zeros ones full zeros_like ones_like full_like arange linspace eye "
                 "copy"),
        (Call("fresh", 3, rule="pad"), "pad"),
        (Call("fresh", 2), "stack concatenate repeat sort"),
        (Call("fresh", 1), "hstack vstack dstack"), (Call("fresh", 3), "clip"),
        (_ANY, "asarray ascontiguousarray expand_dims squeeze transpose moveaxis swapaxes flip "
               "fliplr flipud rot90 roll reshape where unique meshgrid diag histogram interp "
               "array_equal allclose isclose frombuffer array_split split argsort nonzero "
               "argwhere broadcast_to isscalar ndim shape size fromfile flatnonzero "
               "triu tril digitize bincount searchsorted tile"),
        (_TWO, "mean std var sum prod min max amin amax argmax argmin cumsum any all round "
               "around percentile median dot matmul outer"),
        (_ONE, "sqrt exp log log2 log10 log1p expm1 sin cos tan arcsin arccos arctan tanh abs "
               "absolute floor ceil rint sign square isnan isfinite isinf logical_not negative "
               "deg2rad rad2deg load"),
        (_TWO, "add subtract multiply divide maximum minimum power mod fmod arctan2 hypot "
               "logical_and logical_or logical_xor floor_divide equal not_equal less greater "
               "less_equal greater_equal"),
        (_ANY, "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64")),
    "numpy.linalg": ((_TWO, "norm inv"),),
    "numpy.random": ((Call("any", draws=NUMPY),
                      "rand randn randint random random_sample uniform normal choice "
                      "permutation beta binomial poisson exponential gamma lognormal laplace "
                      "dirichlet standard_normal triangular"),
                     (Call("any", 1, draws=NUMPY, rule="shuffle"), "shuffle")),
    "cv2": ((_ONE, "split merge"),
            (_TWO, "imread imdecode cvtColor resize flip medianBlur rotate"),
            (_THREE, "GaussianBlur warpAffine warpPerspective getRotationMatrix2D"),
            (Call("any", 6), "copyMakeBorder")),
}
# Names under which libraries know what they also bind to another name.
ALIASES = {"abs": "absolute", "max": "amax", "min": "amin", "round": "round_",
           "around": "round_", "random": "random_sample", "mod": "remainder",
           "normpath": "_path_normpath"}


# Functions of NumPy that give what a method of that name gives, for what is no array.
PASSED_ON = frozenset(("clip", "repeat"))

# Functions, methods and a transform whose sums NumPy's or torch's BLAS splits between threads.
BY_BLAS = frozenset(("dot", "matmul", "inv", "norm", "mm", "mv", "bmm", "cdist", "conv1d", "conv2d",
                     "affine_grid", "inverse", "LinearTransformation"))


# ---- attributes of values ----

# Reading these, and calling what they are, changes and asks nothing, whichever of the classes
# in surroundings.holders() has them.
ATTRIBUTES = frozenset("""
    H T abs all any argmax argmin argsort astype bands bfloat16 bool byte capitalize casefold
    ceil center chunk clamp clip clone contiguous convert copy cos count cpu crop cross cummax
    cumprod cumsum data decode detach device diag diff dim div dot double dtype encode endswith
    eq exp expand expand_as expandtabs filter find findall finditer flat flatten flags flip
    fliplr flipud float floor format format_map fullmatch gather ge get
    getbands getbbox getbuffer getchannel getcolors getdata getextrema getpixel getvalue group
    groupdict groups gt half height histogram imag index index_select info int intersection
    is_contiguous is_floating_point is_integer isalnum isalpha isascii isdecimal isdigit
    isdisjoint islower isnan isfinite isinf isnumeric isspace issubset issuperset istitle isupper
    item items itemsize join joinpath keys kind lastgroup le log log10 log1p log2 logical_and
    logical_not logical_or long lower lstrip lt masked_fill masked_select match matmul max mean
    min mm mode mul name names narrow nbytes ndim ndimension ne neg nelement new_full new_ones
    new_zeros nonzero norm numel numpy palette parent parts permute point pow prod
    quantize ravel read read_bytes read_text readline readlines real reduce removeprefix
    removesuffix repeat repeat_interleave requires_grad reshape roll rot90 rotate round
    rpartition rsplit rstrip scatter select shape short sigmoid sign sin size softmax span split
    splitlines sqrt square squeeze start startswith std stem step stop stride strides strip sub
    suffix suffixes sum swapaxes swapcase t take tanh tell title to tobytes tolist topk
    transform translate transpose tril triu trunc type type_as unbind unfold union unique
    unsqueeze upper values var view where width with_name with_suffix zfill forward enhance
    as_posix relative_to is_absolute encoding closed args end entropy
    symmetric_difference difference resize replace open lambd training amax amin angle
    atan atan2 base bmm broadcast_to clamp_max clamp_min colors conj diagonal elements erf expm1
    fields getexif getpalette grad indices inverse is_complex is_leaf isidentifier layout lerp
    ljust log_softmax logical_xor logsumexp mapping maximum median minimum most_common movedim
    multiply mv nan_to_num negative outer pattern quantile reciprocal relu remainder reshape_as
    rfind rindex rjust root rsqrt search sgn string subtract swapdims text tile unflatten view_as
    """.split())
# More arguments than these and an array is written to; see Call.limit.
LIMITS = {"conj": 0, "max": 1, "min": 1, "argmax": 1, "argmin": 1, "any": 1, "all": 1, "dot": 1,
          "round": 1,
          "mean": 2, "sum": 2, "std": 2, "var": 2, "prod": 2, "cumsum": 2, "cumprod": 2,
          "clip": 2, "take": 2}
# Those with a rule of their own in reader.py; LIMITS, CHANGES and these only when called.
RULES = frozenset(("copy", "open", "replace", "resize", "format", "format_map"))
# Those that return something new, whoever has them.
NEW = frozenset(("copy", "clone", "convert", "split", "new_zeros", "new_ones",
                 "new_full"))
# Those that change what has them: only for what was made just now; the first of them also draw.
CHANGES_AND_DRAWS = frozenset("uniform_ normal_ random_ bernoulli_ exponential_".split())
CHANGES = CHANGES_AND_DRAWS | frozenset("""
    append extend insert pop remove clear sort reverse update setdefault add discard popitem
    appendleft popleft extendleft rotate_ fill thumbnail paste putalpha putpixel load seek close
    add_ sub_ mul_ div_ clamp_ zero_ fill_ copy_ squeeze_ unsqueeze_ neg_ abs_ round_ floor_
    ceil_ sqrt_ pow_ exp_ masked_fill_ index_fill_ scatter_ t_ transpose_ sigmoid_
    """.split())
# Results of these are in an order that depends on the hashes of strings.
SET_NAMES = frozenset(("union", "intersection", "difference", "symmetric_difference"))
