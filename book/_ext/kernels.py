"""``{kernels}``: the kernels of a chapter at the end of its page, made from the one reference and its checks.

Each kernel gets its signature, contract, points, difficulty and expected minutes, and its solution behind a click. The
chapter's notebook is linked for download, and for Colab, Binder and a JupyterHub where ``_config.yml`` names them.

Solutions of the chapters that the environment names in ``COURSE_WITHHELD``, with commas between them, are left out, and
so is what pages include from their references: `autograder release` builds the site for students so.
"""

import ast
import inspect
import os
import re
from pathlib import Path
from urllib.parse import quote

from answer import answer, summary
from docstring import inline, render
from docutils import nodes
from signature import call, readable, types
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

from autograder import catalog
from autograder.checking import Check

ROOT = Path(__file__).resolve().parents[2]
WITHHELD = frozenset(filter(None, os.environ.get("COURSE_WITHHELD", "").split(",")))
INCLUDED = re.compile(r"^(`{3,})\{literalinclude\} \S*/reference/(\w+)\.py\n.*?^\1$", re.MULTILINE | re.DOTALL)
NOT_YET = "*The course's own code comes when this chapter is over.*"


class KernelsDirective(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        stem = Path(self.env.docname).name
        for room in ("reference", "checks"):
            self.env.note_dependency(str(ROOT / "autograder" / room / f"{stem}.py"))
        found: list[nodes.Node] = [self._notebook(stem)]
        for check in catalog.checks(stem).values():
            section = kernel_section(check)
            self.state.document.note_explicit_target(section)
            found.append(section)
        return found

    def _notebook(self, stem: str) -> nodes.Node:
        notebook = f"exercises/{stem}/{stem}.ipynb"
        download = addnodes.download_reference(
            "",
            "",
            nodes.Text("download it"),
            reftarget=f"/../{notebook}",
            refdoc=self.env.docname,
            filename=f"{stem}.ipynb",
        )
        links: list[nodes.Node] = [download]
        for title, url in launch_links(self.config.html_theme_options, notebook).items():
            links += [nodes.Text(", "), nodes.reference("", title, refuri=url)]
        return nodes.paragraph(
            "", "", nodes.Text("The notebook of this chapter: "), *links, nodes.Text("."), classes=["kernels-notebook"]
        )


def launch_links(theme_options: dict, notebook: str) -> dict[str, str]:
    """Where a notebook can be opened, by title; empty without a repository and hosts in ``_config.yml``."""
    repository = theme_options.get("repository_url", "").rstrip("/")
    if not repository:
        return {}
    branch = theme_options.get("repository_branch") or "main"
    owner_and_name = "/".join(repository.split("/")[-2:])
    hosts = theme_options.get("launch_buttons", {})
    links = {}
    if host := hosts.get("colab_url", "").rstrip("/"):
        links["open it in Colab"] = f"{host}/github/{owner_and_name}/blob/{branch}/{notebook}"
    if host := hosts.get("binderhub_url", "").rstrip("/"):
        links["open it in Binder"] = f"{host}/v2/gh/{owner_and_name}/{branch}?urlpath={quote(f'lab/tree/{notebook}')}"
    if host := hosts.get("jupyterhub_url", "").rstrip("/"):
        path = quote(f"lab/tree/{owner_and_name.split('/')[1]}/{notebook}")
        links["open it on the JupyterHub"] = (
            f"{host}/hub/user-redirect/git-pull?repo={quote(repository, safe='')}&branch={branch}&urlpath={path}"
        )
    return links


def kernel_section(check: Check) -> nodes.section:
    """All that a page says about one kernel."""
    source = inspect.getsource(check.reference)
    node = ast.parse(source).body[0]
    methods = {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)} if isinstance(node, ast.ClassDef) else {}
    function = methods.get("__init__") if isinstance(node, ast.ClassDef) else node
    name = check.name

    section = nodes.section(ids=[f"kernel-{name.replace('_', '-').lower()}"], names=[f"kernel {name}"])
    section += nodes.title("", "", nodes.literal("", name))
    points = f"{check.points} point{'s' if check.points != 1 else ''}"
    section += nodes.paragraph(
        "", f"{points} · {check.difficulty} · about {check.minutes} minutes", classes=["kernel-facts"]
    )
    section += _code(call(name, function))
    returned = readable(function.returns) if function is node else ""
    section += render(ast.get_docstring(node) or "", types(function) if function else {}, returned)
    for method in methods.values():
        if method.name != "__init__" and (docstring := ast.get_docstring(method)):
            section += _code(call(method.name, method))
            section += render(docstring, types(method), readable(method.returns))
    if check.uses:
        section += nodes.paragraph("", "", *inline("Uses " + ", ".join(f"``{kernel}``" for kernel in check.uses) + "."))
    if catalog.stem_of(name) not in WITHHELD:
        section += answer("", summary("", "Solution"), _code(source.rstrip()), classes=["solution"])
    return section


def _code(source: str) -> nodes.literal_block:
    return nodes.literal_block(source, source, language="python")


def withhold(app, docname: str, source: list[str]) -> None:
    """Take what a page includes from a withheld reference out of its text."""
    source[0] = INCLUDED.sub(lambda match: NOT_YET if match[2] in WITHHELD else match[0], source[0])


def setup(app):
    app.add_directive("kernels", KernelsDirective)
    app.connect("source-read", withhold)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
