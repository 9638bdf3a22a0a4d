"""The book's Sphinx extensions, each on a page of its own."""

import ast
import io

import pytest
from docstring import definitions, inline, render, sections
from docutils import nodes
from kernels import kernel_section, launch_links, withhold
from math_core import LatexToMathML
from mathml import convert, display_source
from signature import call, readable, types
from sphinx.application import Sphinx
from sphinx.util.console import strip_colors
from sphinx.util.docutils import docutils_namespace

from autograder import catalog


@pytest.fixture
def build(tmp_path):
    """Build one MyST page with our extensions; gives its HTML and the warnings."""

    def run(text: str, name: str = "index", root: str = "index", **settings) -> tuple[str, str]:
        source = tmp_path / "book"
        source.mkdir(exist_ok=True)
        (source / f"{name}.md").write_text(text, encoding="utf-8")
        heard = io.StringIO()
        extensions = ["myst_parser", "mathml", "answer", "accessibility", "kernels"]
        overrides = {
            "extensions": extensions,
            "root_doc": root,
            "html_theme": "basic",
            "html_math_renderer": "mathml",
            "myst_enable_extensions": ["amsmath", "colon_fence", "dollarmath"],
            **settings,
        }
        with docutils_namespace():
            app = Sphinx(
                source,
                None,
                tmp_path / "html",
                tmp_path / "doctrees",
                "html",
                confoverrides=overrides,
                status=None,
                warning=heard,
                freshenv=True,
            )
            app.build()
        return (tmp_path / "html" / f"{name}.html").read_text(encoding="utf-8"), strip_colors(heard.getvalue())

    return run


def test_formulas_become_mathml_and_leave_no_tex(build):
    html, heard = build("# Page\n\nInline $\\frac{a}{b}$.\n\n$$\n\\sqrt{x}\n$$\n", html_title="A page")
    assert heard == ""
    assert html.count("<math") == 2
    assert "<mfrac>" in html
    assert "<msqrt>" in html
    assert "\\frac" not in html
    assert '<div class="math-scroll"><math display="block"' in html


def test_bad_tex_is_reported_with_file_line_and_place(build):
    _, heard = build("# Page\n\nFine.\n\n$$\nx + \\fraction{a}{b}\n$$\n")
    assert "index.md:5: WARNING: bad TeX: Unknown command" in heard
    assert "fraction" in heard


def test_bad_inline_tex_is_reported_with_the_line_of_its_paragraph(build):
    _, heard = build("# Page\n\nFine.\n\nHere $x_a_b$ is wrong.\n")
    assert "index.md:5: WARNING: bad TeX: Duplicate subscript" in heard


def test_equations_are_numbered_and_referred_to(build):
    page = "# Page\n\n```{math}\n:label: first\na = b\n```\n\n$$\nc = d\n$$ (second)\n\nSee {eq}`second`.\n"
    html, heard = build(page)
    assert heard == ""
    assert '<span class="eqno">(1)</span>' in html
    assert '<span class="eqno">(2)</span>' in html
    assert 'href="#equation-second">(2)</a>' in html


def test_macros_of_the_settings_are_known(build):
    html, heard = build("# Page\n\n$\\R^n$\n", mathml_macros={"R": r"\mathbb{R}"})
    assert heard == ""
    assert "ℝ" in html


@pytest.mark.parametrize(
    ("tex", "nowrap", "expected"),
    [
        ("a = b", False, "a = b"),
        (r"a &= b \\ &= c", False, r"\begin{aligned}a &= b \\ &= c\end{aligned}"),
        ("a = b\n\nc = d", False, r"\begin{aligned}a = b\\c = d\end{aligned}"),
        (r"\begin{align} a &= b \end{align}", True, r"\begin{align*} a &= b \end{align*}"),
        (r"\begin{align*} a &= b \end{align*}", True, r"\begin{align*} a &= b \end{align*}"),
    ],
)
def test_displays_are_aligned_and_environments_leave_numbers_to_sphinx(tex, nowrap, expected):
    assert display_source(tex, nowrap) == expected


@pytest.mark.parametrize(
    "tex", [r"a \label{x}", r"see \eqref{x}", r"\frac{1}", r"\left( a", "a & b", r"\begin{aligned} a"]
)
def test_wrong_tex_raises(tex):
    with pytest.raises(ValueError, match=r"."):
        convert(LatexToMathML(fancy_error=False), tex, display=True)


def test_an_answer_folds_without_scripts(build):
    html, heard = build("# Page\n\n:::{answer} Why $x$?\nBecause of *this*.\n:::\n\n:::{answer}\nYes.\n:::\n")
    assert heard == ""
    assert '<details class="answer">' in html
    assert "<details open" not in html
    assert html.index("<summary>Why <math") < html.index("<em>this</em>") < html.index("</details>")
    assert "<summary>Answer</summary>" in html


def test_an_empty_answer_is_an_error(build):
    _, heard = build("# Page\n\n:::{answer}\n:::\n")
    assert "answer" in heard
    assert "ERROR" in heard


def test_an_image_without_alternative_text_is_reported(build, tmp_path):
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "dot.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>', encoding="utf-8")
    _, heard = build("# Page\n\n![A dot.](dot.svg)\n\n![](dot.svg)\n")
    assert heard.count("dot.svg has no alternative text") == 1
    assert "index.md:5" in heard


def test_kernels_are_shown_with_contract_points_and_a_folded_solution(build, tmp_path):
    exercise = tmp_path / "exercises" / "getting_started"
    exercise.mkdir(parents=True)
    (exercise / "getting_started.ipynb").write_text("{}", encoding="utf-8")
    html, heard = build("# Getting started\n\n## Kernels\n\n```{kernels}\n```\n", "getting_started", "getting_started")
    check = catalog.check_of("softmax")
    assert heard == ""
    assert 'id="kernel-softmax"' in html
    assert f"{check.points} points · {check.difficulty} · about {check.minutes} minutes" in html
    assert "float array" in html
    assert "The axis along which the weights sum to one." in html
    assert "getting_started.ipynb" in html
    folded = html[html.index('<details class="solution answer">') :]
    assert "<summary>Solution</summary>" in folded
    assert "exponentials" in folded
    assert "keepdims" not in html[: html.index('<details class="solution answer">')]


def test_launch_links_need_a_repository():
    hosts = {"colab_url": "https://colab.example", "binderhub_url": "https://binder.example/"}
    assert launch_links({"launch_buttons": hosts}, "exercises/a/a.ipynb") == {}
    links = launch_links(
        {"launch_buttons": hosts, "repository_url": "https://host.example/me/course"}, "exercises/a/a.ipynb"
    )
    assert links == {
        "open it in Colab": "https://colab.example/github/me/course/blob/main/exercises/a/a.ipynb",
        "open it in Binder": "https://binder.example/v2/gh/me/course/main?urlpath=lab/tree/exercises/a/a.ipynb",
    }


@pytest.mark.parametrize("name", sorted(catalog.kernels()))
def test_every_kernel_of_the_course_can_be_shown(name):
    section = kernel_section(catalog.check_of(name))
    rubrics = [rubric.astext() for rubric in section.findall(nodes.rubric)]
    assert "Parameters" in rubrics
    assert section.astext().count(name) >= 2


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ('Float[np.ndarray, "*batch query d_k"]', "float array ``(*batch, query, d_k)``"),
        ('Bool[torch.Tensor, "n"] | None', "boolean tensor ``(n,)`` or None"),
        ('Float[Tensor, "*shape"]', "float tensor ``(*shape)``"),
        ('Float[Tensor, ""]', "float tensor with no axes"),
        ('Bool[Tensor, "*#batch #query key"]', "boolean tensor that broadcasts to ``(*batch, query, key)``"),
        ('tuple[Float[np.ndarray, "n d"], int]', "float array ``(n, d)``, ``int``"),
        ("float", "``float``"),
        ("nn.Module", "``nn.Module``"),
    ],
)
def test_annotations_read_as_words(annotation, expected):
    assert readable(ast.parse(annotation, mode="eval").body) == expected


def test_a_signature_keeps_names_and_defaults():
    function = ast.parse("def f(self, x: int, axis: int = -1, *, mask: bool = None): ...").body[0]
    assert call("f", function) == "f(x, axis=-1, *, mask=None)"
    assert types(function)["axis"] == "``int``, ``-1`` by default"


def test_script_letters_come_without_a_selector_of_their_form():
    assert "<mi>𝒪</mi>" in convert(LatexToMathML(), r"\mathcal{O}(N^2)", display=False)


def test_a_docstring_splits_into_its_sections():
    text = "One line.\n\nParameters\n----------\nx\n    The input.\n\nNotes\n-----\nPlain ``code``."
    assert list(sections(text)) == ["", "Parameters", "Notes"]
    found = render(text, {"x": "``int``"})
    assert [type(node) for node in found] == [
        nodes.paragraph,
        nodes.rubric,
        nodes.definition_list,
        nodes.rubric,
        nodes.paragraph,
    ]
    assert found[2].astext().split() == ["x", "int", "The", "input."]


def test_terms_that_share_a_description_keep_their_types():
    (items,) = definitions("q, k\n    Two inputs.", {"q": "float array ``(n, d)``", "k": "float array ``(m, d)``"})
    assert items.astext().split("\n")[0] == "q, k float array (n, d), float array (m, d)"


def test_several_results_are_a_list_of_terms():
    found = render("One line.\n\nReturns\n-------\nstates\n    All of them.\nlast\n    The last.", {}, "two tensors")
    assert [node.astext().split("\n") for node in found[-1].children] == [
        ["states", "", "All of them."],
        ["last", "", "The last."],
    ]


def test_attributes_are_a_list_of_terms():
    found = render("One line.\n\nAttributes\n----------\nlength\n    How many tokens.", {})
    assert [node.astext().split("\n") for node in found[-1].children] == [["length", "", "How many tokens."]]


def test_stars_are_emphasis_and_products_are_not():
    found = inline("The gate acts *after* its weights: a * b * c, ``x*y``.")
    assert [node.astext() for node in found if isinstance(node, nodes.emphasis)] == ["after"]
    assert "".join(node.astext() for node in found) == "The gate acts after its weights: a * b * c, x*y."


def test_text_that_names_no_terms_stays_paragraphs():
    assert [type(node) for node in definitions("Just words\nover two lines.", {})] == [nodes.paragraph]


def test_a_release_without_solutions_shows_none(monkeypatch):
    page = "# One\n\n```{kernels}\n```\n\n" + (
        "```{literalinclude} ../autograder/reference/getting_started.py\n:language: python\n```\n\n"
        "```{literalinclude} ../autograder/reference/attention_layer.py\n:lines: 1\n```\n"
    )
    monkeypatch.setattr("kernels.WITHHELD", frozenset({"getting_started"}))
    source = [page]
    withhold(None, "index", source)
    assert "reference/getting_started.py" not in source[0]
    assert "comes when this chapter is over" in source[0]
    assert "reference/attention_layer.py" in source[0]
    withheld = kernel_section(catalog.check_of("softmax"))
    shown = kernel_section(catalog.check_of("similarity"))
    assert "Solution" not in withheld.astext()
    assert "e = np.exp" not in withheld.astext()
    assert "Solution" in shown.astext()
