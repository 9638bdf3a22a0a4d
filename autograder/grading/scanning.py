"""Looking in a source for what an instructor should know: ready-made functions, and means of tampering."""

import ast
import functools
from collections.abc import Collection, Iterator, Mapping
from typing import Any

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
        number: sorted(
            {use for node in _parsed(cell["source"]) for part in ast.walk(node) for use in _uses(part, modules)}
        )
        for number, cell in enumerate(notebook["cells"], 1)
        if cell["cell_type"] == "code" and cell["source"].strip() not in given
    }
    return {number: uses for number, uses in found.items() if uses}


def _uses(node: ast.AST, modules: Mapping[str, str]) -> Iterator[str]:
    """What is suspicious in one node of the source."""
    if isinstance(node, ast.Import):
        yield from (f"imports {a.name}" for a in node.names if a.name.split(".")[0] in SUSPICIOUS_MODULES)
    elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in SUSPICIOUS_MODULES:
        yield from (f"imports {node.module}" for a in node.names if f"{node.module}.{a.name}" not in FROM_COURSE)
    elif isinstance(node, ast.Assign):
        targets = [dotted for target in node.targets if "." in (dotted := _dotted(target, modules) or "")]
        yield from (f"replaces {dotted}" for dotted in targets)
    elif isinstance(node, ast.Attribute) and (dotted := _dotted(node, modules)) in SUSPICIOUS_NAMES:
        yield f"uses {dotted}"
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from (f"mentions {text}" for text in SUSPICIOUS_TEXTS if text in node.value)


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
        if name in seen:
            continue
        seen.add(name)
        for node in bindings.get(name, ()):
            for part in ast.walk(node):
                dotted = _dotted(part, modules)
                used |= {ready for ready in reproduces if dotted and _same_function(dotted, ready)}
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
                    pending.append(part.id)
    return sorted(used)


def _names_of(notebook: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, list[ast.AST]]]:
    """What imports bind names to, as dotted names, and what the notebook's own top-level names stand for."""
    return _names_in(tuple(cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code"))


@functools.lru_cache(maxsize=1)  # asked for once for each kernel of a notebook
def _names_in(sources: tuple[str, ...]) -> tuple[dict[str, str], dict[str, list[ast.AST]]]:
    modules: dict[str, str] = {}
    bindings: dict[str, list[ast.AST]] = {}
    for source in sources:
        for node in _parsed(source):
            for part in ast.walk(node):
                if isinstance(part, ast.Import):
                    for alias in part.names:
                        top = alias.name.split(".")[0]
                        modules[alias.asname or top] = alias.name if alias.asname else top
                elif isinstance(part, ast.ImportFrom) and part.module:
                    for alias in part.names:
                        modules[alias.asname or alias.name] = f"{part.module}.{alias.name}"
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                bindings[node.name] = [node]
                modules.pop(node.name, None)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        bindings[target.id] = [node.value]
    return modules, bindings


def _parsed(source: str) -> list[ast.stmt]:
    """The statements of a cell without its IPython magics; none where it does not parse."""
    lines = ["" if line.lstrip().startswith(("%", "!")) else line for line in source.splitlines()]
    try:
        return ast.parse("\n".join(lines)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _dotted(node: ast.AST, modules: Mapping[str, str]) -> str | None:
    """The dotted name of a reference that begins at an imported name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in modules:
        return None
    return ".".join([modules[node.id], *reversed(parts)])


def _same_function(dotted: str, ready: str) -> bool:
    """Whether two dotted names of one package end in the same name, whatever path leads there."""
    return dotted.split(".")[0] == ready.split(".")[0] and dotted.split(".")[-1] == ready.split(".")[-1]
