# SPDX-License-Identifier: MIT
"""
Objects that libraries made in C, which data sets of aligned jobs hold: equal ones have one name in
two processes with other hash seeds, and others have other names.
"""

import importlib
import inspect
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "e2e"),
                os.path.join(HERE, "..", "..", "hooks", "torch", "python")]
import corpus_python  # noqa: E402
import support  # noqa: E402 -- of the tests beside

WORK = os.environ.get("TSSHIM_TEST_STATES", "")  # a directory, of the processes that name
KINDS = {}


class Holder:
    """Holds a thing, as data sets do."""

    def __init__(self, thing):
        self.thing = thing

    def __getitem__(self, index):
        return self.thing.n, self.thing.size, self.thing.height


def name(thing, notes=None):
    """What names a data set with @thing, or the reason why nothing does."""
    from tsshim_torch.fingerprint.datasets import Notes, Unknown, fingerprint
    try:
        return fingerprint(Holder(thing), notes=notes or Notes(seeds=True, read=set())).hex()
    except Unknown as unknown:
        return str(unknown)


def kind(function):
    """Decorator: makes an object in one of two states, with modules that are imported for it."""
    parameters = inspect.signature(function).parameters.values()
    modules = [one.name for one in parameters
               if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD][1:]

    def make(state):
        return function(state, *map(importlib.import_module, modules))

    KINDS[function.__name__] = make
    return make


def there(word, write):
    """The path of a file of the test's; the first makes it."""
    path = os.path.join(WORK, word)
    if not os.path.exists(path):
        write(path)
    return path


# ---- text ----

def words(state, **options):
    """A tokenizer."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    made = Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2, "c%d" % state: 3}, [("a", "b")], **options))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return made


kind(words)


@kind
def special_tokens(state):
    made = words(0)
    made.encode_special_tokens = bool(state)
    return made


@kind
def padding(state):
    made = words(0)
    made.enable_padding(length=8 + state)
    return made


@kind
def fast(state):
    from transformers import PreTrainedTokenizerFast
    return PreTrainedTokenizerFast(tokenizer_object=words(state), unk_token="[UNK]")


@kind
def slow(state):
    from transformers import CTRLTokenizer

    def write(path):
        os.mkdir(path)
        with open(os.path.join(path, "vocab.json"), "w") as file:
            json.dump({"<unk>": 0, "a": 1, "b": 2, "c%d" % state: 3}, file)
        with open(os.path.join(path, "merges.txt"), "w") as file:
            file.write("#version\na b\n")
    path = there("slow%d" % state, write)
    return CTRLTokenizer(os.path.join(path, "vocab.json"), os.path.join(path, "merges.txt"))


@kind
def pictures(state):
    from transformers import ViTImageProcessor
    return ViTImageProcessor(size={"height": 20 + state, "width": 20})


def pieces(state, **options):
    """A model of sentencepiece."""
    import sentencepiece

    def write(path):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a b c d e f g", "hello world %d" % state] * 30), vocab_size=22,
            model_prefix=path[:-6], hard_vocab_limit=False, minloglevel=2)
    return sentencepiece.SentencePieceProcessor(
        model_file=there("pieces%d.model" % state, write), **options)


kind(pieces)


@kind
def pieces_at_both_ends(state):
    return pieces(0, add_bos=bool(state))


@kind
def pattern(state, regex):
    return regex.compile(r"\p{L}+%d" % state)


@kind
def match(state, regex):
    return regex.search("[a-z]+", "11abc" + "d" * state)


@kind
def settings(state, pydantic):
    return pydantic.create_model("Settings", size=(int, 1), names=(list, []))(size=state)


@kind
def fields(state, pydantic):
    return pydantic.create_model("Settings", size=(int, 1 + state), names=(list, []))


# ---- pictures and volumes ----

@kind
def clahe(state, cv2):
    return cv2.createCLAHE(2.0, (8, 8 + state))


@kind
def orb(state, cv2):
    return cv2.ORB_create(100, patchSize=31 + state)


@kind
def picture_of_opencv(state, cv2, numpy):
    return cv2.UMat(numpy.full((3, 4), state, numpy.uint8))


@kind
def channels_of_opencv(state, cv2, numpy):
    cube = numpy.zeros((2, 3, 4), numpy.uint8)
    return cv2.UMat(cv2.Mat(cube, wrap_channels=False) if state else cube)


@kind
def shape_of_opencv(state, cv2, numpy):
    return cv2.UMat(numpy.zeros((3 + state, 4 - state), numpy.uint8))


@kind
def default_font(state):
    from PIL import ImageFont
    return ImageFont.load_default(10 + state)


@kind
def font(state, matplotlib):
    from PIL import ImageFont
    word = "DejaVuSans.ttf" if state else "DejaVuSans-Bold.ttf"
    return ImageFont.truetype(os.path.join(matplotlib.get_data_path(), "fonts", "ttf", word), 12)


@kind
def volume(state, numpy, SimpleITK):
    made = SimpleITK.GetImageFromArray(numpy.ones((3, 4, 5), numpy.float32))
    made.SetSpacing((1, 2, 3 + state))
    return made


@kind
def voxels(state, numpy, SimpleITK):
    return SimpleITK.GetImageFromArray(numpy.full((3, 4, 5), state, numpy.float32))


@kind
def turn(state, SimpleITK):
    made = SimpleITK.Euler3DTransform()
    made.SetRotation(0, 0, state)
    return made


@kind
def value_outside(state, SimpleITK):
    made = SimpleITK.ResampleImageFilter()
    made.SetDefaultPixelValue(1 + state / (1 << 40))  # which its text does not tell
    return made


@kind
def turn_of_a_filter(state, SimpleITK):
    made = SimpleITK.ResampleImageFilter()
    made.SetTransform(turn(state))
    return made


@kind
def sigma(state, SimpleITK):
    made = SimpleITK.SmoothingRecursiveGaussianImageFilter()
    made.SetSigma(1.0 + state)
    return made


# ---- numbers ----

def script(make):
    """What torch has compiled."""
    import torch
    torch.manual_seed(0)
    return torch.jit.script(make(torch.nn))


@kind
def module(state):
    return script(lambda nn: nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Linear(3, 4 + state)))


@kind
def weights(state, torch):
    made = script(lambda nn: nn.Linear(3, 4))
    with torch.no_grad():
        made.bias += state
    return made


@kind
def loaded(state, torch):
    return torch.jit.load(there("loaded%d" % state, lambda path: module(state).save(path)))


@kind
def traced(state, torch):
    torch.manual_seed(0)
    return torch.jit.trace(torch.nn.Linear(3, 4 + state), torch.zeros(1, 3))


def tensors(state, framework="np", **tables):
    """An open file of safetensors."""
    import numpy
    import safetensors
    from safetensors.numpy import save_file
    tables = tables or {"a": numpy.full(3, state), "b": numpy.zeros((2, 2), "f4")}
    path = there("tensors%s%s" % (state, sorted(tables)), lambda path: save_file(tables, path, {"state": str(state // 2)}))
    return safetensors.safe_open(path, framework)


kind(tensors)


@kind
def words_beside_tensors(state, numpy):
    return tensors(2 * state, c=numpy.zeros(3))


@kind
def shapes_of_tensors(state, numpy):
    return tensors(4 + state % 2, d=numpy.zeros((2 + state, 3 - state)))


@kind
def tensors_of_torch(state):
    return tensors(state, "pt")


@kind
def neighbours(state, numpy):
    from scipy.spatial import cKDTree
    return cKDTree(numpy.arange(10.0).reshape(5, 2) + state)


@kind
def metric(state, torchmetrics):
    return torchmetrics.classification.MulticlassAccuracy(3 + state)


@kind
def trees(state, numpy):
    from sklearn import tree
    return tree.DecisionTreeClassifier(random_state=0).fit(
        numpy.arange(12.0).reshape(6, 2), [0, 1, 0, 1, 0, state])


@kind
def graph(state, torch):
    from torch_geometric.data import Data
    return Data(x=torch.ones(3, 2) * state, edge_index=torch.tensor([[0, 1], [1, 2]]))


@kind
def graph_of_kinds(state, torch):
    from torch_geometric.data import HeteroData
    made = HeteroData()
    made["a"].x = torch.ones(2) * state
    made["a", "to", "a"].edge_index = torch.tensor([[0], [1]])
    return made


# ---- tests ----

def names():
    """{word: [name, name of one made again, name in another state]}, of libraries that are there."""
    found = {}
    for word, make in KINDS.items():
        try:
            things = make(0), make(0), make(1)
        except ImportError as error:
            found[word] = [str(error)]
            continue
        found[word] = list(map(name, things))
    return found


def processes():
    """What two processes find."""
    with tempfile.TemporaryDirectory() as directory:
        found = []
        for seed in "12":
            outcome = support.run([sys.executable, os.path.abspath(__file__)], {
                **os.environ, "PYTHONHASHSEED": seed, "TSSHIM_TEST_STATES": directory,
                "OMP_NUM_THREADS": "1"})
            assert outcome.status == 0, outcome.errors[-1500:]
            found.append(json.loads(outcome.output.splitlines()[-1]))
        return found


def test_states_are_names():
    """Of equal objects one, of others another; what torch traces again has another number in it."""
    first, second = processes()
    assert sum(len(each) == 3 for each in first.values()) > 20, first
    for word, each in first.items():
        assert each == second[word], (word, each, second[word])
        if len(each) == 3:
            assert {32} == set(map(len, each)) and each[0] != each[2], (word, each)
            assert each[0] == each[1] or word == "traced", (word, each)


def test_what_draws_in_its_own_way_is_refused():
    for thing in (words(0, dropout=0.1), words):
        assert ("random number generator" in name(thing)) == (thing is not words), name(thing)


def test_what_a_program_makes_of_it_is_refused():
    """Its own class, or a part in Python inside; nothing of either runs."""
    import tokenizers
    from scipy.spatial import cKDTree
    from tokenizers import pre_tokenizers

    class Mine(cKDTree):
        def __getstate__(self):
            raise AssertionError("ran")

    class Splits:
        def pre_tokenize(self, text):
            raise AssertionError("ran")

    made = words(0)
    made.pre_tokenizer = pre_tokenizers.PreTokenizer.custom(Splits())
    for thing in (Mine([[1.0, 2.0]]), made):
        assert "an object that shows nothing" in name(thing), name(thing)
    assert len(name(tokenizers.AddedToken("a"))) == 32


def test_parts_of_pictures_are_refused():
    """Filters of OpenCV see what lies around them, which nothing tells."""
    import cv2
    import numpy
    whole = cv2.UMat(numpy.zeros((8, 8), numpy.uint8))
    assert len(name(whole)) == 32
    assert "an object that shows nothing" in name(cv2.UMat(whole, (2, 4), (2, 4)))


def test_tensors_of_a_file():
    """By what they are given as; many are refused, for each look reads them all."""
    import numpy
    import safetensors
    from safetensors.numpy import save_file
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "large")
        save_file({"a": numpy.zeros((1 << 10, (1 << 10) + 1), numpy.uint8)}, path)
        large = safetensors.safe_open(path, "np")
        assert "an object that shows nothing" in name(large), name(large)
        save_file({"a": numpy.zeros(3)}, path)
        found = [name(safetensors.safe_open(path, framework)) for framework in ("np", "pt")]
        assert {32} == set(map(len, found)) and found[0] != found[1], found


def test_filters_that_do_not_tell_all_are_refused():
    """Seeds that were added, functions that are called at an event; attributes count."""
    try:
        import SimpleITK
    except ImportError:
        return  # as in names()
    made = SimpleITK.ResampleImageFilter()
    before = name(made)
    made.more = 1
    assert len({before, name(made)}) == 2 and len(name(made)) == 32
    made.AddCommand(SimpleITK.sitkEndEvent, lambda: None)
    for refused in (made, SimpleITK.ConnectedThresholdImageFilter(), SimpleITK.ShrinkImageFilter()):
        assert "an object that shows nothing" in name(refused), name(refused)


def test_pickles_and_paths_in_a_state_are_refused():
    """Code that a pickle names is not walked; a file may be another one by now."""
    import pyarrow
    import pyarrow.dataset
    import pyarrow.parquet
    import spacy
    assert "an object that shows nothing" in name(spacy.blank("en").vocab)
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "table")
        pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), path)
        assert "an object that shows nothing" in name(pyarrow.dataset.dataset(path))


def test_states_are_read_anew():
    """They are made for a look: what was at an address a moment ago is kept for nobody."""
    import numpy
    from scipy.spatial import cKDTree
    from tsshim_torch.fingerprint.datasets import Notes
    notes, found = Notes(seeds=True), []
    for number in range(12):  # trees that only differ in what is large
        points = numpy.arange(1 << 18, dtype=float)
        points[1:-1] = numpy.roll(points[1:-1], 2 * number)
        found.append(name(cKDTree(points.reshape(-1, 2), 1 << 18), notes))
    assert len(set(found)) == len(found), found


def test_options_in_a_state_count():
    """No code mentions their names, and C reads them where nobody would notice."""
    import xml.etree.ElementTree as tree
    assert name(tree.Element("a", {"lr": "0.1"})) != name(tree.Element("a", {"lr": "0.3"}))


if __name__ == "__main__":
    print(json.dumps(names()))
else:
    corpus_python.enter()
