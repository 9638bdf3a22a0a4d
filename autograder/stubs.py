"""Taking answers out of kernels, as stock nbgrader does, and proving that none is left."""

import ast
import builtins
import re
import symtable
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

from autograder.reading import answer, definition, functions

BEGIN_SOLUTION, END_SOLUTION = "### BEGIN SOLUTION", "### END SOLUTION"
CODE_STUB = ("# YOUR CODE HERE", "raise NotImplementedError()")
TEXT_STUB = ("YOUR ANSWER HERE",)
SHORT = 20  # a statement of so few characters gives nothing away


def with_markers(source: str) -> str:
    """A kernel's source with nbgrader's markers around each body that a student writes.

    Raises
    ------
    ValueError
        If the kernel has no body to write, or begins one on the line of its ``def``.
    """
    lines = source.split("\n")
    node = ast.parse(source).body[0]
    bodies = answers(node)
    if not bodies:
        raise ValueError(f"kernel {node.name!r} leaves nothing to write; give it a body below its input checks.")
    for function, statements in reversed(bodies):
        indent = " " * statements[0].col_offset
        first = _end_of_given(lines, function, statements)
        last = _end_of_body(lines, function, indent)
        lines.insert(last, indent + END_SOLUTION)
        lines.insert(first, indent + BEGIN_SOLUTION)
    return "\n".join(lines)


def answers(node: ast.FunctionDef | ast.ClassDef) -> list[tuple[ast.FunctionDef, list[ast.stmt]]]:
    """The functions of a kernel that a student writes, each with its statements; a class's ``__init__`` is given."""
    written = [function for function in functions(node) if function.name != "__init__"]
    return [(function, statements) for function in written if (statements := answer(function))]


def _end_of_given(lines: list[str], function: ast.FunctionDef, statements: list[ast.stmt]) -> int:
    """The last line of what is given, counted from 1: blank lines and comments below it belong to the answer."""
    if statements[0].lineno == function.lineno:
        raise ValueError(f"{function.name!r} has its body on the line of its `def`; put it on a line of its own.")
    last = statements[0].lineno - 1
    while not lines[last - 1].strip() or lines[last - 1].lstrip().startswith("#"):
        last -= 1
    return last


def _end_of_body(lines: list[str], function: ast.FunctionDef, indent: str) -> int:
    """The last line of a body, counted from 1, with the comments that stand below its last statement."""
    last = function.end_lineno
    for number in range(last, len(lines)):
        if lines[number].startswith(indent + "#"):
            last = number + 1
        elif lines[number].strip():
            break
    return last


def is_stub(source: str) -> bool:
    """Whether a cell holds definitions whose bodies are still the placeholder, and nothing else."""
    try:
        nodes = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    lines = source.split("\n")
    if not all(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in nodes):
        return False
    inside = {number for node in nodes for number in range(node.lineno, node.end_lineno + 1)}
    if any(line.strip() for number, line in enumerate(lines, 1) if number not in inside):
        return False
    return all(_is_placeholder(lines, *body) for node in nodes for body in answers(node))


def _is_placeholder(lines: list[str], function: ast.FunctionDef, statements: list[ast.stmt]) -> bool:
    indent = " " * statements[0].col_offset
    body = lines[_end_of_given(lines, function, statements) : _end_of_body(lines, function, indent)]
    return tuple(line.strip() for line in body if line.strip()) == CODE_STUB


def given_part(source: str, name: str) -> str | None:
    """What a kernel's cell gives to students, as normalised code: all but the bodies; None where it is not defined."""
    node = definition(source, name)
    if node is None:
        return None
    for function, statements in answers(node):
        function.body = [*function.body[: -len(statements)], ast.Pass()]
    return ast.unparse(node)


def without_regions(source: str, region: str, stub: Iterable[str] = ()) -> str:
    """A cell's text with each part between ``BEGIN region`` and ``END region`` replaced by a stub, as nbgrader does.

    Raises
    ------
    ValueError
        If a region is nested or never ends.
    """
    kept, inside = [], False
    for line in source.split("\n"):
        if f"BEGIN {region}" in line:
            if inside:
                raise ValueError(f"`BEGIN {region}` stands inside another; end the first before it.")
            inside = True
            indent = re.match(r"\s*", line)[0]
            kept += [indent + stub_line for stub_line in stub]
        elif f"END {region}" in line:
            inside = False
        elif not inside:
            kept.append(line)
    if inside:
        raise ValueError(f"`BEGIN {region}` has no `END {region}`; add it below the part to take out.")
    return "\n".join(kept)


def region_of(source: str, region: str) -> str:
    """The text between all ``BEGIN region`` and ``END region`` lines of a cell."""
    inside, found = False, []
    for line in source.split("\n"):
        if f"BEGIN {region}" in line or f"END {region}" in line:
            inside = f"BEGIN {region}" in line
        elif inside:
            found.append(line)
    return "\n".join(found)


def undeclared_names(source: str, given: Iterable[str]) -> list[tuple[str, int]]:
    """Names that a kernel's source uses but neither defines, nor is given, nor finds among the builtins; with lines."""
    known = {*given, *vars(builtins)}
    free = _globals_used(symtable.symtable(source, "<kernel>", "exec")) - known
    uses = {node.id: node.lineno for node in reversed([*ast.walk(ast.parse(source))]) if isinstance(node, ast.Name)}
    return sorted(((name, uses.get(name, 1)) for name in free), key=lambda found: found[1])


def _globals_used(table: symtable.SymbolTable) -> set[str]:
    defined = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}

    def used(scope: symtable.SymbolTable) -> set[str]:
        own = {
            symbol.get_name()
            for symbol in scope.get_symbols()
            if symbol.is_referenced() and (symbol.is_global() or scope is table)
        }
        return own.union(*(used(child) for child in scope.get_children()))

    return used(table) - defined


def names_made(source: str) -> set[str]:
    """Names that a cell assigns, defines or imports at its top level."""
    symbols = symtable.symtable(source, "<cell>", "exec").get_symbols()
    return {symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()}


@dataclass(frozen=True)
class Secret:
    """A statement of an answer, and the exercise that it answers."""

    text: str
    owner: str


def secrets(owner: str, statements: Iterable[ast.stmt]) -> list[Secret]:
    """The statements of an answer, nested ones too, that are long enough to give something away."""
    texts = [ast.unparse(node) for top in statements for node in ast.walk(top) if isinstance(node, ast.stmt)]
    return [Secret(text, owner) for text in dict.fromkeys(texts) if len(text) > SHORT]


def secrets_in_text(owner: str, text: str) -> list[Secret]:
    """The same for a hand-written answer: its statements where it is Python, else its lines."""
    try:
        return secrets(owner, ast.parse(textwrap.dedent(text)).body)
    except SyntaxError:
        return [Secret(line.strip(), owner) for line in text.split("\n") if len(line.strip()) > SHORT]


def find_leak(text: str, secret_list: Iterable[Secret]) -> tuple[Secret, int] | None:
    """The first secret that stands in a text, whatever its spacing, quotes and brackets, and its line from 1."""
    squeezed = _squeeze(text)
    as_code = _squeeze(_unparsed(text))
    for secret in secret_list:
        needle = _squeeze(secret.text)
        if needle in squeezed:
            return secret, _line_of(text, squeezed.index(needle))
        if needle in as_code:
            return secret, 1
    return None


def _squeeze(text: str) -> str:
    return re.sub(r"\s", "", text).replace('"', "'")


def _unparsed(text: str) -> str:
    try:
        return ast.unparse(ast.parse(text))
    except (SyntaxError, ValueError):
        return ""


def _line_of(text: str, position: int) -> int:
    """The line of the character that comes at ``position`` when white space is not counted."""
    for number, line in enumerate(text.split("\n"), 1):
        position -= len(_squeeze(line))
        if position < 0:
            return number
    return 1
