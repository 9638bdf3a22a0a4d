"""A student's feedback as one HTML page that opens alone: no script, no request, no hidden case."""

import ast
import html
from collections.abc import Sequence

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from autograder import notebooks, telling
from autograder.grading.results import AspectMark, KernelMark, SubmissionResult

LIGHT, DARK = HtmlFormatter(style="default"), HtmlFormatter(style="github-dark")
STYLE = """
:root{color-scheme:light dark;--ink:#1f2328;--paper:#fff;--soft:#59636e;--line:#d1d9e0;--card:#f6f8fa;
--pass:#1a7f37;--part:#8a5a00;--fail:#b3202a}
@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--paper:#0d1117;--soft:#9198a1;--line:#3d444d;--card:#151b23;
--pass:#3fb950;--part:#d29922;--fail:#ff7b72}}
*{box-sizing:border-box}
body{font:16px/1.6 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:48rem;margin:0 auto;
padding:1.5rem 1rem 4rem;overflow-wrap:anywhere}
h1{font-size:1.6rem;line-height:1.25;margin:0 0 .3rem}h2{font-size:1.2rem;margin:0}p{margin:.5rem 0}
.total{font-size:1.15rem}.soft{color:var(--soft)}
section{border:1px solid var(--line);border-left:5px solid var(--state);border-radius:6px;padding:1rem;margin:1.5rem 0}
.pass{--state:var(--pass)}.part{--state:var(--part)}.fail{--state:var(--fail)}.note{--state:var(--line)}
ul.aspects{list-style:none;padding:0}.aspects li{margin:.4rem 0;padding-left:1.6rem;text-indent:-1.6rem}
.aspects p{text-indent:0;color:var(--soft)}.mark{display:inline-block;width:1.6rem;text-indent:0;font-weight:700}
.right .mark{color:var(--pass)}.wrong .mark{color:var(--fail)}.advice{font-weight:600}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.9em}
.highlight{background:var(--card)!important;border-radius:6px;margin-top:.6rem}
pre{margin:0;padding:.8rem;overflow-x:auto;overflow-wrap:normal;line-height:1.45}
summary{cursor:pointer}
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(student: str, result: SubmissionResult) -> str:
    """The whole page for one submission."""
    title = f"{notebooks.title(result.stem)}: feedback for {student}"
    light, dark = (formatter.get_style_defs(".highlight") for formatter in (LIGHT, DARK))
    code_style = f"{light} @media (prefers-color-scheme:dark){{{dark}}}"
    parts = [
        "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>",
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{html.escape(title)}</title><style>{code_style}{STYLE}</style></head><body><main>",
        f"<h1>{html.escape(title)}</h1>",
        f"<p class='total'><strong>{result.score} of {result.points} points</strong></p>",
        "<p class='soft'>Your kernels ran on fresh inputs of the same kinds as those of the checks in your notebook. "
        "What they printed there was dropped.</p>",
        _notes(result),
        *map(_kernel, result.kernels),
        "</main></body></html>\n",
    ]
    return "".join(parts)


def _notes(result: SubmissionResult) -> str:
    """Remarks on the file, and the cells that did not run to their end."""
    lines = [telling.inline(remark) for remark in result.remarks]
    for problem in result.problems:
        line = f", line {problem.line}" if problem.line else ""
        lines.append(f"Cell {problem.cell}{line} did not run to its end: {html.escape(problem.text)}")
    if not lines:
        return ""
    items = "".join(f"<li>{line}</li>" for line in lines)
    return f"<section class='note'><h2>About your notebook</h2><ul>{items}</ul></section>"


def _kernel(mark: KernelMark) -> str:
    state = "pass" if mark.passed else "part" if mark.score else "fail"
    name = html.escape(mark.kernel)
    verdict = mark.verdict.removeprefix(f"{mark.kernel}: ")
    parts = [
        f"<section class='{state}'><h2><code>{name}</code>: {mark.score} of {mark.points} points</h2>",
        f"<p>{telling.inline(verdict[:1].upper() + verdict[1:])}</p>",
        f"<ul class='aspects'>{''.join(map(_aspect, mark.aspects))}</ul>",
        _advice(mark.advice),
    ]
    if not mark.passed:
        parts.append(
            f"<p class='soft'>Next: run <code>check(&quot;{name}&quot;, {name})</code> in your notebook, which shows "
            f"the cases that it fails; <code>hint(&quot;{name}&quot;)</code> helps you on.</p>"
        )
    if mark.source:
        code = highlight(_without_contract(mark.source), PythonLexer(), LIGHT).replace("<pre>", "<pre tabindex='0'>", 1)
        parts.append(f"<details{'' if mark.passed else ' open'}><summary>Your code</summary>{code}</details>")
    return "".join(parts) + "</section>"


def _without_contract(source: str) -> str:
    """The code with the first line of each docstring alone: the student has the contract in the notebook."""
    try:
        nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source
    lines = source.splitlines()
    for node in sorted(nodes, key=lambda node: -node.lineno):
        first = node.body[0]
        long = first.end_lineno - first.lineno > 1
        if ast.get_docstring(node, clean=False) is not None and long and lines[first.end_lineno - 1].strip() == '"""':
            lines[first.lineno - 1 : first.end_lineno] = [f'{lines[first.lineno - 1]} …"""']
    return "\n".join(lines)


def _aspect(aspect: AspectMark) -> str:
    symbol, word, kind = ("✓", "right", "right") if aspect.passed else ("✗", "not yet", "wrong")
    why = f"<p>{telling.inline(aspect.why)}</p>" if aspect.why else ""
    title = telling.inline(aspect.title)
    return (
        f"<li class='{kind}'><span class='mark' aria-hidden='true'>{symbol}</span>{title}: {word} "
        f"({aspect.score} of {aspect.points}){why}</li>"
    )


def _advice(advice: Sequence[str]) -> str:
    several = "<p>What you get is what each of these mistakes gives:</p>" if len(advice) > 1 else ""
    return several + "".join(f"<p class='advice'>→ {telling.inline(line)}</p>" for line in advice)
