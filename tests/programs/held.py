# SPDX-License-Identifier: MIT
"""
What the libraries of the corpus hold and give: frames of Polars are told from each other, and
graphs of PyTorch Geometric come back as they were.
"""

import ctypes
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "e2e"),
                os.path.join(HERE, "..", "..", "hooks", "torch", "python")]
import corpus_python  # noqa: E402

corpus_python.enter()
FORK_S = 120  # that a forked process may take, which has none of the threads of Polars


class Holder:
    """Holds a table, as data sets do."""

    def __init__(self, table):
        self.table = table


def name(table):
    """What names a data set with @table, or the reason why nothing does."""
    from tsshim_torch.fingerprint.datasets import Notes, Unknown, fingerprint
    try:
        return fingerprint(Holder(table), notes=Notes(seeds=True)).hex()
    except Unknown as unknown:
        return str(unknown)


# ---- Polars ----

def columns():
    """{name: column} of the types that there are, with nulls, short texts and long ones."""
    import polars
    text = ["x", None, "longer than a view has room for", ""]
    lists = [[1], [2, 3], None, []]
    numbers = polars.Series([1, 2, None, -4])
    found = {kind: numbers.cast(getattr(polars, kind), strict=False) for kind in (
        "Int8", "Int16", "Int32", "Int64", "Int128", "UInt8", "UInt16", "UInt32", "UInt64",
        "Float32", "Float64", "Date", "Time", "Boolean")}
    found.update({
        "text": polars.Series(text), "bytes": polars.Series(text).cast(polars.Binary),
        "milliseconds": numbers.cast(polars.Datetime("ms")),
        "zone": numbers.cast(polars.Datetime("us", "Europe/Berlin")),
        "span": numbers.cast(polars.Duration("ns")),
        "decimal": numbers.cast(polars.Decimal(10, 2)),
        "lists": polars.Series(lists), "texts": polars.Series([text, None, [], ["a"]]),
        "pairs": polars.Series([[1, 2], None, [3, 4], [5, 6]], dtype=polars.Array(polars.Int8, 2)),
        "fields": polars.Series([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}, {"a": 2}]),
        "kinds": polars.Series(["a", None, "b", "a"], dtype=polars.Categorical),
        "enumeration": polars.Series(["a", None, "b", "a"], dtype=polars.Enum(["a", "b"])),
        "nothing": polars.Series([None] * 4)})
    return found


def frame():
    """All of them."""
    import polars
    return polars.DataFrame(columns())


def test_polars_equal_tables_have_one_name():
    import polars
    assert len(name(frame())) == 32 and name(frame()) == name(frame()) == name(frame().clone())
    for word, column in columns().items():
        assert len(name(column)) == 32 and name(column) == name(columns()[word]), word
    text = "".join(["longer than a view ", "has room for"])
    assert name(polars.Series([text])) == name(polars.Series([str(text)]))


def test_polars_every_cell_counts():
    """And each type, name and null; a row more or less, and where a chunk ends."""
    import polars
    for word, column in columns().items():
        others = [column, column.rename("other"), column[1:],
                  polars.concat([column, column], rechunk=True),
                  polars.concat([column, column], rechunk=False)]
        if word != "nothing":  # of which there is nothing to change
            others += [column[:-1], column.reverse()[1:], column.shift(1),
                       column.gather([0, 0, 2, 3])]
        if not isinstance(column.dtype, polars.Struct):
            others.append(polars.DataFrame({"a": column, "b": column}).to_struct())
        names = [name(other) for other in others]
        assert {len(each) for each in names} == {32}, (word, names)
        assert len(set(names)) == len(names), (word, names)


def test_polars_types_with_equal_bytes_differ():
    import polars
    zeros = polars.Series([0, 0])
    names = [name(zeros.cast(kind)) for kind in (
        polars.Int64, polars.UInt64, polars.Float64, polars.Datetime("ms"), polars.Datetime("us"),
        polars.Datetime("us", "UTC"), polars.Datetime("us", "Europe/Berlin"), polars.Time,
        polars.Duration("ms"), polars.Duration("us"))]
    names += [name(zeros.cast(polars.Decimal(9, scale))) for scale in (0, 1)]
    names += [name(polars.Series(["a"], dtype=polars.Enum(words)))
              for words in (["a"], ["a", "b"], ["a", "c"])]
    names += [name(polars.Series(["a"], dtype=polars.Categorical)), name(polars.Series([b"a"])),
              name(polars.Series(["a"]))]
    assert len(set(names)) == len(names), names


def test_polars_changes_in_place_count():
    """However it is changed, a table that is looked at again has another name."""
    import polars
    table = polars.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    seen = [name(table)]

    def change(what, *arguments):
        what(*arguments)
        seen.append(name(table))

    change(table.__setitem__, (0, "a"), 9)
    change(table.insert_column, 1, polars.Series("c", [0, 0, 0]))
    change(table.replace_column, 1, polars.Series("c", [0, 0, 1]))
    change(table.extend, table.clone())
    change(setattr, table, "columns", ["a", "d", "b"])
    change(setattr, table, "more", "an attribute of the program's")
    assert len(set(seen)) == len(seen) and {len(each) for each in seen} == {32}, seen
    assert table.drop_in_place("d").len() == 6 and name(table) not in seen
    column = polars.Series([1, 2, 3])
    before = name(column)
    column[1] = 7
    assert name(column) not in (before, name(polars.Series([1, 2, 3]).sort()))


def test_polars_large_tables_are_read_anew():
    """What was at an address a moment ago is kept for nobody: memory is used again."""
    import polars
    from tsshim_torch.fingerprint.datasets import Notes, fingerprint
    notes, names = Notes(seeds=True), []
    for number in range(8):
        table = Holder(polars.DataFrame({"a": polars.repeat(number, 1 << 20, eager=True),
                                         "b": polars.repeat(str(number), 1 << 18, eager=True)
                                         .cast(polars.Categorical).extend_constant(None, 786432)}))
        names.append(fingerprint(table, notes=notes))
        del table
    assert len(set(names)) == len(names)


def test_polars_what_a_program_adds_counts():
    """A class of its own, and what it puts in place of a method."""
    import polars

    class Mine(polars.DataFrame):
        """With code of its own."""

        def row(self, *arguments, **options):
            return super().row(*arguments, **options)

    found = [name(polars.DataFrame({"a": [1]})), name(Mine({"a": [1]}))]
    before = polars.DataFrame.row
    polars.DataFrame.row = lambda self, number, **_: {"file": "another", "label": 0}
    found.append(name(polars.DataFrame({"a": [1]})))
    polars.DataFrame.row = before
    assert len(set(found)) == 3, found
    assert name(polars.DataFrame({"a": [1]})) == found[0]


def test_polars_what_has_no_cells_of_its_own_is_not_known():
    import polars
    objects = polars.Series([object()], dtype=polars.Object)
    for value, kind in ((objects, "PySeries"), (frame().lazy(), "PyLazyFrame"),
                        (polars.DataFrame({"a": objects}), "PySeries"),
                        (polars.col("a"), "PyExpr")):
        assert "%s): an object that shows nothing" % kind in name(value), name(value)


def test_polars_in_a_process_that_was_forked():
    """All types, after the threads of Polars have worked; the names are those of its parent."""
    import polars
    table = frame()
    large = polars.DataFrame({"a": range(1 << 18), "b": [str(n) * 9 for n in range(1 << 18)]})
    large = large.with_columns(polars.col("b").cast(polars.Categorical).alias("c"))
    large = large.sort("b", descending=True)
    grouped = large.group_by(polars.col("a") % 999, maintain_order=True).agg("b", "c")
    expected = [name(each) for each in (table, large, grouped)]
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        import signal
        signal.alarm(FORK_S)
        try:
            os.write(write, "\n".join(name(each) for each in (table, large, grouped)).encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read) as file:
        assert file.read().split("\n") == expected
    os.waitpid(child, 0)


# ---- PyTorch Geometric ----

def there_and_back(sample):
    from tsshim_torch.sharing.item import codec
    encoded = codec.encode(sample)
    room = ctypes.create_string_buffer(encoded.bytes + 64)
    codec.fill(encoded.leaves, ctypes.addressof(room))
    return codec.decode(encoded.meta, ctypes.addressof(room))


def graph():
    import torch
    from torch_geometric.data import Data
    made = Data(y=torch.tensor(3), x=torch.rand(5, 3), edge_index=torch.tensor([[0, 1], [1, 0]]),
                name="g", sizes=[1, 2], none=None, number=2.5)
    made.zeta, made.alpha = torch.ones(5), {"a": torch.zeros(2)}
    return made


def same(first, second):
    """Whether two graphs are equal down to the last attribute, in order."""
    import torch
    import trainer
    for one, other in ((first, second), (first._store, second._store)):
        assert type(one) is type(other) and list(vars(one)) == list(vars(other))
        for key, part in vars(one).items():
            if key not in ("_store", "_mapping", "_parent"):
                assert type(part) is type(vars(other)[key]) and part == vars(other)[key], key
    assert second._store._parent() is second
    one, other = first._store._mapping, second._store._mapping
    assert list(one) == list(other) and list(map(type, one.values())) == \
        list(map(type, other.values()))
    assert trainer.digest(one) == trainer.digest(other)
    assert not any(isinstance(part, torch.Tensor) and part.data_ptr() == other[key].data_ptr()
                   for key, part in one.items())


def test_graphs_come_back_as_they_were():
    import copy
    from torch_geometric.data import Batch, Data
    plain, asked, private = graph(), graph(), graph()
    assert asked.is_node_attr("x") and asked.is_edge_attr("edge_index")
    assert not asked.is_node_attr("y")
    private._secret, private._more = [1, 2], {"a": (3,)}
    for made in (plain, asked, private, copy.copy(asked), Data()):
        same(made, there_and_back(made))
    pair = there_and_back((plain, {"other": asked}))
    same(plain, pair[0])
    same(asked, pair[1]["other"])
    batch = Batch.from_data_list([there_and_back(plain), there_and_back(graph())])
    assert batch.num_graphs == 2 and batch.to_data_list()[0].name == "g"
    returned = there_and_back(plain)
    returned.x, returned.new = returned.x + 1, 5  # it is a graph like any
    assert returned.num_nodes == 5 and "new" in returned and "new" not in plain


def test_graphs_that_are_more_are_refused():
    import torch
    from torch_geometric.data import Data, HeteroData
    from tsshim_torch.sharing.item.objects import Unshareable

    class Mine(Data):
        """Of the program's own."""

        def __inc__(self, key, value, *arguments):
            return 0

    def with_own(graph, key, value):
        vars(graph)[key] = value
        return graph

    def with_store(graph, key, value):
        vars(graph._store)[key] = value
        return graph

    shared = torch.ones(4)
    store = graph()._store
    refused = [Mine(x=shared), HeteroData(), Data(x=object()),
               Data(x=shared.clone().requires_grad_()), Data(f=len), with_own(graph(), "more", 1), with_own(graph(), "_store", store),
               with_own(graph(), "_edge_attr_cls", Mine), with_store(graph(), "_parent", None),
               with_store(graph(), "_cached_attr", {}),
               with_store(graph(), "_mapping", type("Table", (dict,), {})())]
    for number, sample in enumerate(refused):
        try:
            there_and_back(sample)
        except Unshareable:
            continue
        raise AssertionError("carried: %d" % number)
    found = there_and_back(Data(x=shared, y=shared))
    assert found.x is found.y and torch.equal(found.x, shared)
