"""The report on a class as one HTML page that opens alone: no script, no request."""

import html
from collections.abc import Iterable, Sequence

from autograder import notebooks, telling
from autograder.course.report import KINDS, ChapterReport, ClassReport, KernelCount, by_kind
from autograder.grading.exporting import shown
from autograder.grading.feedback import POLICY
from autograder.grading.feedback import STYLE as PAGE_STYLE

BARS = 10  # of the picture of a chapter's marks
MOST_PAIRS = 50
STYLE = """
body{max-width:70rem}h3{font-size:1.05rem;margin:1.4rem 0 .3rem}
.scroll{overflow-x:auto}td:nth-child(3):last-child{min-width:14rem}
table{border-collapse:collapse;font-size:.9rem;overflow-wrap:normal}td code{white-space:nowrap}
th,td{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
tbody th{font-weight:600;white-space:nowrap}
td.right{color:var(--pass)}td.part{color:var(--part)}td.wrong{color:var(--fail)}
svg text{font:12px system-ui,sans-serif;fill:var(--ink)}svg rect{fill:var(--soft)}
.bar{display:inline-flex;width:9rem;height:.8rem;border:1px solid var(--line)}.bar i{display:block}
.bar .right{background:var(--pass)}.bar .part{background:var(--part)}.bar .wrong{background:var(--fail)}
"""


def page(report: ClassReport) -> str:
    """The whole page."""
    title = "Report on the class"
    parts = [
        "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>",
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{title}</title><style>{PAGE_STYLE}{STYLE}</style></head><body><main>",
        f"<h1>{title}</h1>",
        f"<p class='total'>{len(report.students)} students, {len(report.chapters)} chapters</p>",
        _looks(report),
        *(_chapter(chapter, report) for chapter in report.chapters),
        _whole_course(report),
        "</main></body></html>\n",
    ]
    return "".join(parts)


def _looks(report: ClassReport) -> str:
    if not report.looks:
        said = "Tampering and ready-made functions are looked for, but not every one is found."
        return f"<section class='pass'><h2>Nothing needs a person</h2><p class='soft'>{said}</p></section>"
    parts = [f"<section class='fail'><h2>To be looked at: {len(report.looks)}</h2>"]
    for kind, looks in by_kind(report.looks).items():
        rows = [[_name(look.student), _text(look.stem), _text(look.what)] for look in looks]
        parts.append(f"<h3>{_text(kind.capitalize())}: {len(looks)}</h3><p class='soft'>{_text(KINDS[kind])}</p>")
        parts.append(_table(["student", "chapter", "what"], rows))
    return "".join(parts) + "</section>"


def _chapter(chapter: ChapterReport, report: ClassReport) -> str:
    count = len(chapter.rows)
    mean = sum(chapter.scores) / count
    return "".join(
        [
            f"<section class='note'><h2>{_text(notebooks.title(chapter.stem))}</h2>",
            f"<p>{count} handed in. Of {chapter.points} points the mean is {mean:.1f}, ",
            f"the median {chapter.median:g}.</p>",
            _histogram(chapter),
            "<h3>Kernels, the most failed first</h3>",
            _kernels(sorted(chapter.kernels, key=lambda kernel: -kernel.failing)),
            _mistakes(chapter),
            _alike(chapter),
            f"<details><summary>Marks of {count} students</summary>{_marks(chapter, report)}</details>",
            "</section>",
        ]
    )


def _histogram(chapter: ChapterReport) -> str:
    """How many have how much of the points, as bars of ten percent; full marks count in the last."""
    counts = [0] * BARS
    for score in chapter.scores:
        counts[min(BARS * score // max(chapter.points, 1), BARS - 1)] += 1
    width, height, most = 44, 90, max(counts)
    said = ", ".join(f"{10 * n} to {10 * n + 10} percent: {count}" for n, count in enumerate(counts))
    bars = "".join(
        f"<rect x='{n * width + 2}' y='{20 + height - height * count / most:.1f}' width='{width - 4}' "
        f"height='{height * count / most:.1f}'/>"
        f"<text x='{n * width + width / 2}' y='{15 + height - height * count / most:.1f}' text-anchor='middle'>"
        f"{count or ''}</text><text x='{n * width}' y='{height + 36}'>{10 * n}</text>"
        for n, count in enumerate(counts)
    )
    size = f"0 0 {BARS * width + 40} {height + 42}"
    return (
        f"<svg role='img' aria-label='Students by percent of the points: {said}' viewBox='{size}' "
        f"style='max-width:{BARS * width + 40}px;width:100%'>{bars}"
        f"<text x='{BARS * width}' y='{height + 36}'>100 %</text></svg>"
    )


def _kernels(kernels: Sequence[KernelCount]) -> str:
    rows = []
    for kernel in kernels:
        written = kernel.right + kernel.partly + kernel.wrong
        parts = [("right", kernel.right), ("part", kernel.partly), ("wrong", kernel.wrong)]
        widths = "".join(f"<i class='{kind}' style='width:{100 * n / written:.1f}%'></i>" for kind, n in parts if n)
        bar = f"<span class='bar' aria-hidden='true'>{widths}</span>"
        counts = [kernel.right, kernel.partly, kernel.wrong, kernel.not_written]
        rows.append([f"<code>{_text(kernel.kernel)}</code>", *map(str, counts), bar if written else ""])
    return _table(["kernel", "right", "partly", "wrong", "not written", ""], rows, numbers=range(1, 5))


def _mistakes(chapter: ChapterReport) -> str:
    if not chapter.mistakes:
        return ""
    rows = [
        [
            f"{mistake.count} of {mistake.of}",
            f"<code>{_text(mistake.kernel)}</code>",
            f"{telling.inline(mistake.hint)}<br><span class='soft'>{_text(' or '.join(mistake.ids))}</span>",
        ]
        for mistake in chapter.mistakes
    ]
    return f"<h3>Mistakes by name</h3>{_table(['students', 'kernel', 'what they were told'], rows)}"


def _alike(chapter: ChapterReport) -> str:
    if not chapter.alike:
        return ""
    rows = [
        [
            _name(pair.one),
            _name(pair.other),
            f"{100 * pair.share:.0f} %",
            str(pair.tokens),
            _text(", ".join(pair.kernels)),
        ]
        for pair in chapter.alike[:MOST_PAIRS]
    ]
    more = f" The first {MOST_PAIRS} are shown." if len(chapter.alike) > MOST_PAIRS else ""
    return (
        f"<h3>Nearly the same code: {len(chapter.alike)} pairs</h3><p class='soft'>Names are not compared; answers "
        f"that many share or that the course knows are left out. It proves nothing: read both.{more}</p>"
        f"{_table(['student', 'student', 'alike', 'tokens', 'kernels'], rows, numbers=(2, 3))}"
    )


def _marks(chapter: ChapterReport, report: ClassReport) -> str:
    """Everybody's marks; the sums are those of the gradebook, with manual marks, where it has them."""
    names = [kernel.kernel for kernel in chapter.kernels]
    late = any(report.sums[key].days_late for key in report.sums if key[1] == chapter.stem)
    header = ["student", *names, "total", *(["days late", "after penalty"] if late else [])]
    rows, classes = [], []
    for student, result in chapter.rows:
        marks = {mark.kernel: mark for mark in result.kernels}
        total = report.sums.get((student, chapter.stem))
        states = ["right" if marks[n].passed else "part" if marks[n].score else "wrong" for n in names]
        after = [f"{total.days_late}{'?' * total.is_guess}", shown(total.after_penalty)] if late and total else []
        earned = shown(total.earned) if total else str(result.score)
        rows.append([_name(student), *(str(marks[name].score) for name in names), earned, *after])
        classes.append(["", *states])
    return _table(header, rows, numbers=range(1, len(header)), classes=classes)


def _whole_course(report: ClassReport) -> str:
    if all(percent is None for percent in report.percent.values()):
        return ""
    rows = [[_name(student), shown(percent, ".1f")] for student, percent in sorted(report.percent.items())]
    table = _table(["student", "percent"], rows, numbers=(1,))
    return (
        "<section class='note'><h2>The whole course</h2><p class='soft'>By the weights in course.toml, after "
        f"penalties; a chapter that was not handed in counts 0.</p><details><summary>Percent of {len(rows)} students"
        f"</summary>{table}</details></section>"
    )


def _table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Iterable[int] = (),
    classes: Sequence[Sequence[str]] | None = None,
) -> str:
    """A table of cells that are HTML already."""
    numbers = set(numbers)
    head = "".join(
        f"<th class='n'>{_text(t)}</th>" if n in numbers else f"<th>{_text(t)}</th>" for n, t in enumerate(header)
    )
    body = []
    for place, row in enumerate(rows):
        own = classes[place] if classes else []
        cells = []
        for n, cell in enumerate(row):
            kind = " ".join(filter(None, ["n" if n in numbers else "", own[n] if n < len(own) else ""]))
            tag = "th" if n == 0 and cell.startswith("<bdi>") else "td"
            cells.append(f"<{tag}{f' class={chr(39)}{kind}{chr(39)}' if kind else ''}>{cell}</{tag}>")
        body.append(f"<tr>{''.join(cells)}</tr>")
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    return f"<div class='scroll' tabindex='0'>{table}</div>"


def _name(student: str) -> str:
    """A student's name; ``bdi`` keeps the order of the line where it is written from right to left."""
    return f"<bdi>{_text(student)}</bdi>"


def _text(text: str) -> str:
    return html.escape(text)
