"""The stub speaks of the module that is there."""

import ast
import inspect
import pathlib

from variegate import _core


def test_names_and_arguments_of_the_stub():
    tree = ast.parse((pathlib.Path(_core.__file__).parent / "_core.pyi").read_text())
    functions = {f.name: f for f in tree.body if isinstance(f, ast.FunctionDef)}
    classes = {c.name: c for c in tree.body if isinstance(c, ast.ClassDef) and not c.name.startswith("_")}
    public = {name for name in dir(_core) if not name.startswith("_")}
    assert public == {*functions, *classes}
    for name, stub in functions.items():
        arguments = [a.arg for a in (*stub.args.args, *stub.args.kwonlyargs)]
        assert arguments == list(inspect.signature(getattr(_core, name)).parameters), name
    for name, stub in classes.items():
        members = {member for member in dir(getattr(_core, name)) if not member.startswith("_")}
        assert members == {
            f.name for f in stub.body if isinstance(f, ast.FunctionDef) and not f.name.startswith("_")
        }, name
