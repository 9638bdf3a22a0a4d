"""The paragraphs of the book's pages."""

import pytest

from lab import paragraphs

SOURCE = """---
kernelspec: {name: python3}
---

# A page

The first paragraph has a [link](other.md) and a {term}`word <term of the glossary>` (词) in it.

```{code-cell}
this_is_code = "and not a paragraph of the book at all, whatever it says here"
```

(an-anchor)=
## A part with $x_1$

The share is {glue:text}`share:.2f`, as {cite:t}`somebody2019` says in *many* **strong** words {cite}`other2020`.
It goes on in `the next` line.

$$
a = b \\text{ and no paragraph, though it has many words in it}
$$ (label)

| a table | with | many | cells | and | some | words | in | them |
| :-- | --: | --: | --: | --: | --: | --: | --: | --: |

Too short.

:::{answer} What is asked here, in a question of enough words?
And here is what is answered, with $\\sqrt{d}$ in it.
:::

```{kernels}
```
"""


def test_prose_is_found_and_nothing_else():
    found = paragraphs.of_source("page", SOURCE)
    assert [(paragraph.page, paragraph.heading) for paragraph in found] == [
        ("page", "A page"),
        ("page", "A part with x_1"),
        ("page", "A part with x_1"),
    ]
    assert [paragraph.text for paragraph in found] == [
        "The first paragraph has a link and a word (词) in it.",
        "The share is …, as says in many strong words. It goes on in the next line.",
        "What is asked here, in a question of enough words? And here is what is answered, with sqrt d in it.",
    ]


def test_the_pages_before_one_are_those_of_the_table_of_contents():
    before = paragraphs.chapters("transformer")
    assert before[0] == "getting_started"
    assert before[-1] == "multi_head_attention"
    assert paragraphs.chapters("no_such_page")[-1] == "references"


@pytest.mark.parametrize("stem", paragraphs.chapters("pretrained_encoder"))
def test_no_mark_of_the_source_is_left(stem):
    found = paragraphs.paragraphs(stem)
    assert len(found) > 20
    for paragraph in found:
        for mark in ("{term}", "{glue", "{cite", ":::", "```", "$", "](", "\\"):
            assert mark not in paragraph.text, paragraph
