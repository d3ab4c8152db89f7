# SPDX-License-Identifier: MIT
"""The recipes that scripts/package fills in, as the tools that they are for read them."""

import ast
import hashlib
import os
import re
import shutil

import support
from package import ROOT, call, made, version

try:
    import yaml
except ImportError:
    yaml = None

RECIPES = {"rpm": "tsshim.spec", "spack": "package.py", "conda": "recipe.yaml"}


def recipe(kind):
    return os.path.join(made("recipes"), kind, RECIPES[kind])


def text(kind):
    return support.read(recipe(kind))


def source(kind):
    """The source package beside the recipe."""
    return os.path.join(made("recipes"), kind, "tsshim-%s.tar.gz" % version())


def digest(kind):
    return hashlib.sha256(support.read(source(kind), "rb")).hexdigest()


def test_each_is_filled_in():
    assert set(os.listdir(made("recipes"))) == set(RECIPES)
    assert set(os.listdir(os.path.join(ROOT, "scripts", "recipes"))) == set(RECIPES)
    for kind, name in RECIPES.items():
        assert set(os.listdir(os.path.dirname(recipe(kind)))) == {
            name, os.path.basename(source(kind))}
        assert not re.search("@[A-Z]", text(kind)), kind


def test_rpm_reads_the_spec():
    if not shutil.which("rpmspec"):
        raise support.Skip("rpm", "rpmspec is not installed (scripts/deps test)")
    wanted = "%{name} %{version} %{license}\\n"
    assert call("rpmspec", "--query", "--qf", wanted, recipe("rpm")) == (
        "tsshim %s MIT AND BSD-2-Clause\n" % version())
    parsed = call("rpmspec", "--parse", recipe("rpm"))
    assert os.path.basename(source("rpm")) in re.search("^Source0: *(.*)$", parsed, re.M).group(1)


def calls(tree, name):
    """(values of arguments, {name: value}) of calls of the function @name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == name:
            yield ([ast.literal_eval(argument) for argument in node.args],
                   {word.arg: ast.literal_eval(word.value) for word in node.keywords})


def test_the_spack_package_names_the_source():
    tree = ast.parse(text("spack"))
    assert list(calls(tree, "version")) == [([version()], {"sha256": digest("spack")})]
    assert list(calls(tree, "license")) == [(["MIT"], {})]
    assert os.path.basename(source("spack")) in text("spack")


def test_the_conda_recipe_names_the_source():
    if yaml is None:
        raise support.Skip("yaml", "python3-yaml is not installed (scripts/deps test)")
    read = yaml.safe_load(text("conda"))
    assert read["schema_version"] == 1
    assert read["package"] == {"name": "tsshim", "version": version()}
    assert read["source"] == {"path": os.path.basename(source("conda")),
                              "sha256": digest("conda")}


def test_each_has_what_talks_to_other_nodes():
    for kind, line in (("rpm", "BuildRequires:  pkgconfig(openssl) >= 3.0"),
                       ("spack", 'depends_on("openssl@3:")'), ("conda", "- openssl >=3.0")):
        assert line in text(kind) and "-Dpeers=enabled" in text(kind), kind
    assert re.search("^Recommends: +memcached$", text("rpm"), re.M)
