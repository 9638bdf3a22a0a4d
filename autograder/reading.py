"""Reading a student's source without running it."""

import ast
import re


def definition(source: str, name: str) -> ast.FunctionDef | ast.ClassDef | None:
    """The last top-level definition of ``name`` in a cell or file, or None (also where the source does not parse)."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    found = [node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name]
    return found[-1] if found else None


def is_placeholder(node: ast.stmt) -> bool:
    """Whether a statement is ``raise NotImplementedError`` in any spelling."""
    if not isinstance(node, ast.Raise) or node.exc is None:
        return False
    raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"


def functions(node: ast.FunctionDef | ast.ClassDef) -> list[ast.FunctionDef]:
    """The function itself, or the methods of a class."""
    return [node] if isinstance(node, ast.FunctionDef) else [n for n in node.body if isinstance(n, ast.FunctionDef)]


def body_after_docstring(function: ast.FunctionDef) -> list[ast.stmt]:
    """The statements of a function without its docstring."""
    return function.body[1:] if ast.get_docstring(function) is not None else function.body


def is_input_check(node: ast.stmt) -> bool:
    """Whether a statement is ``if …: raise …``: the input checks at a kernel's head, which are given."""
    return isinstance(node, ast.If) and not node.orelse and all(isinstance(n, ast.Raise) for n in node.body)


def answer(function: ast.FunctionDef) -> list[ast.stmt]:
    """The statements that a student writes: those after the docstring and the input checks."""
    body = body_after_docstring(function)
    while body and is_input_check(body[0]):
        body = body[1:]
    return body


def placeholder_line(source: str, name: str) -> int | None:
    """The line of a placeholder that was left in beside an answer, counted from 1; None where there is none."""
    node = definition(source, name)
    for function in functions(node) if node else []:
        body = answer(function)
        lines = [statement.lineno for statement in body if is_placeholder(statement)]
        if lines and len(body) > len(lines):
            return lines[0]
    return None


def release_order(release: str) -> tuple[int, ...]:
    """The numbers of a release, by which two releases compare."""
    return tuple(int(number) for number in re.findall(r"\d+", release))
