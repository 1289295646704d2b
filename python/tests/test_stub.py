"""The stub speaks of the module that is there."""

import ast
import inspect
import pathlib

from variegate import _core


def test_names_and_arguments_of_the_stub():
    tree = ast.parse((pathlib.Path(_core.__file__).parent / "_core.pyi").read_text())
    functions = {f.name: f for f in tree.body if isinstance(f, ast.FunctionDef)}
    [model] = [c for c in tree.body if isinstance(c, ast.ClassDef) and c.name == "FittedModel"]
    public = {name for name in dir(_core) if not name.startswith("_")}
    assert public == {*functions, "FittedModel"}
    for name, stub in functions.items():
        arguments = [a.arg for a in (*stub.args.args, *stub.args.kwonlyargs)]
        assert arguments == list(inspect.signature(getattr(_core, name)).parameters), name
    members = {name for name in dir(_core.FittedModel) if not name.startswith("_")}
    assert members == {f.name for f in model.body if isinstance(f, ast.FunctionDef)}
