"""Which fields a document has, read off the function that makes it: known before anything is done to make one."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

Source = Callable[..., Any] | str
"""What makes a document, or the name of a field that somebody adds to it."""


class Unreadable(ValueError):
    """The function makes its document in a way that shows no fields: write it as a dictionary, or name the fields."""


def fields_of(*sources: Source) -> frozenset[str]:
    """The fields of what these make together. Raises Unreadable."""
    return frozenset(name for source in sources
                     for name in ((source,) if isinstance(source, str) else _made_by(source)))


@lru_cache(maxsize=256)
def _made_by(function: Callable[..., Any]) -> frozenset[str]:
    """The fields of what a function of ours returns: dictionaries with their keys written out, joined by `|` or `**`,
    and what other such functions return.
    """
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    if not isinstance(tree, ast.FunctionDef):
        raise Unreadable(f"{function.__qualname__} is no function")
    reader = _Reader(function, tree)
    return frozenset(name for node in ast.walk(tree) if isinstance(node, ast.Return) and node.value is not None
                     for name in reader.fields(node.value))


class _Reader:
    """Reads the expressions of one function."""

    def __init__(self, function: Callable[..., Any], tree: ast.FunctionDef):
        self.function = function
        self.variables = {target.id: node.value for node in ast.walk(tree)
                          if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
                          for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
                          if isinstance(target, ast.Name)}

    def fields(self, node: ast.expr) -> Iterator[str]:
        """The keys of the dictionary that an expression gives."""
        match node:
            case ast.Dict():
                for key, value in zip(node.keys, node.values, strict=True):
                    yield from self.fields(value) if key is None else [self._word(key)]
            case ast.BinOp(op=ast.BitOr()):
                yield from self.fields(node.left)
                yield from self.fields(node.right)
            case ast.IfExp():
                yield from self.fields(node.body)
                yield from self.fields(node.orelse)
            case ast.DictComp(key=ast.Name(id=name), generators=[ast.comprehension(
                    target=ast.Name(id=of), iter=ast.Tuple(elts=words))]) if name == of:
                yield from map(self._word, words)
            case ast.Name(id=name) if name in self.variables:
                yield from self.fields(self.variables[name])
            case ast.Call(func=ast.Name() | ast.Attribute()):
                yield from _made_by(self._called(node.func))
            case _:
                raise self._unreadable(node)

    def _word(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        raise self._unreadable(node)

    def _called(self, node: ast.expr) -> Callable[..., Any]:
        """The function that an expression names: one of the module, or of a module that it imported."""
        found: Any = None
        if isinstance(node, ast.Name):
            found = self.function.__globals__.get(node.id)
        elif isinstance(node, ast.Attribute):
            found = getattr(self._called(node.value), node.attr, None)
        if found is None:
            raise self._unreadable(node)
        return found  # type: ignore[no-any-return]

    def _unreadable(self, node: ast.expr) -> Unreadable:
        return Unreadable(f"{self.function.__qualname__} returns {ast.unparse(node)}, which shows no fields")
