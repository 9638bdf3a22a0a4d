"""Looking in a source for what an instructor should know: ready-made functions, and means of tampering."""

import ast
import functools
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

# What a solution of an exercise has no use for, and an attack on the grader does.
SUSPICIOUS_MODULES = (
    *("atexit", "builtins", "cffi", "ctypes", "gc", "inspect", "marshal", "mmap", "multiprocessing", "resource"),
    *("signal", "socket", "sqlite3", "subprocess", "autograder"),
)
SUSPICIOUS_NAMES = (
    *("os._exit", "os.execv", "os.execvp", "os.fork", "os.kill", "os.killpg", "os.link", "os.symlink", "os.system"),
    *("os.walk", "os.scandir", "os.getppid", "os.environ", "os.open"),
    *("sys._getframe", "sys.excepthook", "sys.meta_path", "sys.modules", "sys.setprofile", "sys.settrace"),
)
SUSPICIOUS_TEXTS = ("/proc", "/dev/", "/etc/", ".pth", ".ssh", "gradebook", "sitecustomize", "solutions/")
FROM_COURSE = {f"autograder.{name}" for name in ("begin", "check", "evaluate", "hint")}


def suspicious_uses(notebook: Mapping[str, Any], released: Mapping[str, Any]) -> dict[int, list[str]]:
    """By the number of a code cell, what in it an instructor should look at; cells as they were handed out left out.

    This is a hint, not a wall: it has false alarms, and what hides its names is not found.
    """
    given = {cell["source"].strip() for cell in released["cells"]}
    modules, _ = _names_of(notebook)
    found = {
        number: sorted({use for statement in _statements(cell["source"]) for use in _uses(statement, modules)})
        for number, cell in enumerate(notebook["cells"], 1)
        if cell["cell_type"] == "code" and cell["source"].strip() not in given
    }
    return {number: uses for number, uses in found.items() if uses}


def _uses(statement: "Statement", modules: Mapping[str, str]) -> Iterator[str]:
    """What is suspicious in one statement."""
    yield from statement.suspicious
    dotted = (_resolved(name, modules) for name in statement.replaced)
    yield from (f"replaces {name}" for name in dotted if name and "." in name)
    dotted = (_resolved(name, modules) for name in statement.everything.references if "." in name)
    yield from (f"uses {name}" for name in dotted if name in SUSPICIOUS_NAMES)


def ready_made_uses(notebook: Mapping[str, Any], kernel: str, reproduces: Collection[str]) -> list[str]:
    """Which of the ready-made functions a kernel's source refers to, itself or through the notebook's own functions.

    This finds what the run-time watch may miss, a function that is called in one case only. It is not complete:
    Python has more ways to reach a function than a reading of the source can see.
    """
    modules, bindings = _names_of(notebook)
    used: set[str] = set()
    seen: set[str] = set()
    pending = [kernel]
    while pending:
        name = pending.pop()
        if name in seen or name not in bindings:
            continue
        seen.add(name)
        dotted = [known for name in bindings[name].references if (known := _resolved(name, modules))]
        used |= {ready for ready in reproduces if any(_same_function(name, ready) for name in dotted)}
        pending += bindings[name].loads
    return sorted(used)


def _names_of(notebook: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, "Names"]]:
    """What imports bind names to, as dotted names, and what the notebook's own top-level names stand for."""
    return _names_in(tuple(cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code"))


@functools.lru_cache(maxsize=1)  # asked for once for each kernel of a notebook
def _names_in(sources: tuple[str, ...]) -> tuple[dict[str, str], dict[str, "Names"]]:
    modules: dict[str, str] = {}
    bindings: dict[str, Names] = {}
    for statement in (statement for source in sources for statement in _statements(source)):
        modules.update(statement.imported)
        if statement.defined:
            modules.pop(statement.defined, None)
            bindings[statement.defined] = statement.everything
        bindings.update(dict.fromkeys(statement.assigned, statement.value))
    return modules, bindings


class Names(NamedTuple):
    """The names in a piece of source: references as they are written, such as ``np.linalg.norm``, and names read."""

    references: frozenset[str] = frozenset()
    loads: frozenset[str] = frozenset()


class Statement(NamedTuple):
    """What is looked for in one statement at the top level of a cell; its syntax tree is far larger."""

    everything: Names
    imported: tuple[tuple[str, str], ...]  # names, and the dotted names that they are bound to
    defined: str  # the name of a function or class
    assigned: tuple[str, ...]
    value: Names  # of what is assigned
    replaced: tuple[str, ...]  # references that are assigned to
    suspicious: tuple[str, ...]


@functools.lru_cache(maxsize=128)  # most cells of a class are those that were handed out
def _statements(source: str) -> tuple[Statement, ...]:
    """The statements of a cell without its IPython magics; none where it does not parse."""
    lines = ["" if line.lstrip().startswith(("%", "!")) else line for line in source.splitlines()]
    try:
        body = ast.parse("\n".join(lines)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    return tuple(map(_statement, body))


def _statement(node: ast.stmt) -> Statement:
    parts = list(ast.walk(node))
    targets = [target for part in parts if isinstance(part, ast.Assign) for target in part.targets]
    is_definition = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    own = node.targets if isinstance(node, ast.Assign) else ()
    return Statement(
        _names(parts),
        tuple(binding for part in parts for binding in _imported(part)),
        node.name if is_definition else "",
        tuple(target.id for target in own if isinstance(target, ast.Name)),
        _names(ast.walk(node.value)) if own else Names(),
        tuple(reference for target in targets if (reference := _reference(target))),
        tuple(use for part in parts for use in _suspicious(part)),
    )


def _suspicious(node: ast.AST) -> Iterator[str]:
    """What is suspicious in one node of the source, whatever its names stand for."""
    if isinstance(node, ast.Import):
        yield from (f"imports {a.name}" for a in node.names if a.name.split(".")[0] in SUSPICIOUS_MODULES)
    elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in SUSPICIOUS_MODULES:
        yield from (f"imports {node.module}" for a in node.names if f"{node.module}.{a.name}" not in FROM_COURSE)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from (f"mentions {text}" for text in SUSPICIOUS_TEXTS if text in node.value)


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The names that an import binds, each with the dotted name that it is bound to."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.split(".")[0]
            yield (alias.asname, alias.name) if alias.asname else (top, top)
    elif isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _names(nodes: Iterable[ast.AST]) -> Names:
    named = [node for node in nodes if isinstance(node, ast.Name | ast.Attribute)]
    references = frozenset(reference for node in named if (reference := _reference(node)))
    loads = (node.id for node in named if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    return Names(references, frozenset(loads))


def _reference(node: ast.AST) -> str | None:
    """A name, or attributes of one, as they are written."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def _resolved(reference: str, modules: Mapping[str, str]) -> str | None:
    """The dotted name of a reference that begins at an imported name."""
    first, dot, rest = reference.partition(".")
    return f"{modules[first]}{dot}{rest}" if first in modules else None


def _same_function(dotted: str, ready: str) -> bool:
    """Whether two dotted names of one package end in the same name, whatever path leads there."""
    return dotted.split(".")[0] == ready.split(".")[0] and dotted.split(".")[-1] == ready.split(".")[-1]
