"""Everything public is importable, named once, and documented."""

import importlib
import inspect
import pkgutil
from pathlib import Path

import limen


def modules():
    return [name for _, name, _ in pkgutil.walk_packages(limen.__path__, "limen.")]


def test_every_module_imports_and_says_what_it_is():
    for name in modules():
        module = importlib.import_module(name)
        assert module.__doc__, f"{name} has no docstring"


def test_no_module_bears_the_name_of_a_public_function():
    top = {name.split(".")[1] for name in modules() if name.count(".") == 1}
    functions = {name for name in limen.__all__ if inspect.isfunction(getattr(limen, name))}
    assert not top & functions


def test_public_names_have_docstrings():
    for name in limen.__all__:
        assert inspect.getdoc(getattr(limen, name)), f"limen.{name} has no docstring"


def test_names_of_the_contract():
    for name in (
        "activation",
        "target",
        "network",
        "TwoLayer",
        "predict",
        "simulate",
        "compare",
        "sweep",
        "theories",
        "cite",
        "load",
    ):
        assert callable(getattr(limen, name))
    assert callable(limen.gaussian.hermite_coefficients)
    assert callable(limen.gaussian.dual)
    assert callable(limen.link.information_exponent)


def test_the_reference_has_every_public_chapter():
    page = (Path(__file__).parents[2] / "docs" / "reference_pages.py").read_text()
    chapters = [
        name for name in limen.__all__ if inspect.ismodule(getattr(limen, name)) and name not in ("experiments", "plot")
    ]
    missing = [name for name in chapters if f'"limen.{name}"' not in page]
    assert not missing


def test_the_names_of_a_chapter_leave_the_package_alone():
    assert limen.attention.simulate is not limen.simulate
    assert limen.one_pass.flow is not limen.flow
    assert limen.simulate.__module__ == "limen.verbs"
    assert limen.flow.__name__ == "limen.flow"
