"""How sharp the checks are: every known mistake rejected and named, every right variant accepted, over many seeds.

And how steady: a mistake costs the same points whatever was drawn.
"""

import argparse
import runpy
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from autograder import catalog
from autograder.checking import edited
from autograder.judging import Report, evaluate, forget_exams


@dataclass
class Sharpness:
    """One kernel's row of the table; ``gaps`` says each thing that is not as it should be."""

    kernel: str
    mistakes: int = 0
    rejected: int = 0
    named: int = 0
    only_hidden: int = 0
    steady: int = 0
    variants: int = 0
    accepted: int = 0
    gaps: list[str] = field(default_factory=list)


def measure(name: str, variants: Sequence[Callable], seeds: Iterable[int]) -> Sharpness:
    """Run a check on its known mistakes and on right variants, on the visible cases and on hidden ones of each seed.

    A mistake must be rejected and named by the visible cases, or, where only hidden cases can tell, by those of every
    seed; and it must fail in the same aspects each time, so that its mark does not hang on the draw. A right variant,
    and a copy of the reference, must be accepted by the visible and by all hidden cases.
    """
    check = catalog.check_of(name)
    row = Sharpness(name, mistakes=len(check.mistakes), variants=len(variants))
    rights = [*variants, edited(check.reference)]
    kernels = [*(mistake.kernel for mistake in check.mistakes), *rights]
    drawn = []
    for seed in (None, *seeds):
        # Seed by seed, so that the reference and the mistakes run once a seed for all kernels.
        drawn.append([evaluate(name, kernel, seed) for kernel in kernels])
        forget_exams()
    reports = list(zip(*drawn, strict=True))
    for mistake, (visible, *hidden) in zip(check.mistakes, reports[: row.mistakes], strict=True):
        telling = hidden if visible.passed else [visible, *hidden]
        row.only_hidden += visible.passed
        rejected = bool(telling) and not any(report.passed for report in telling)
        named = rejected and all(mistake.id in report.mistakes for report in telling)
        row.rejected += rejected
        row.named += named
        if not rejected:
            row.gaps.append(f"{name}: the mistake {mistake.id} is accepted")
        elif not named:
            others = sorted({other for report in telling for other in report.mistakes})
            row.gaps.append(f"{name}: the mistake {mistake.id} is rejected but not named (named: {others or 'none'})")
        changing = _changing(telling)
        row.steady += not changing
        row.gaps += [
            f"{name}: the mistake {mistake.id} fails in {title!r} on {times} of {len(telling)} draws"
            for title, times in changing.items()
        ]
    for variant, given in zip(rights, reports[row.mistakes :], strict=True):
        wrong = next((report for report in given if not report.passed), None)
        if wrong is not None:
            finding = next(finding for finding in wrong.findings if not finding.passed)
            row.gaps.append(
                f"{name}: the right variant {variant.__name__} is rejected ({finding.title}: {finding.text})"
            )
        elif variant in variants:
            row.accepted += 1
    return row


def _changing(reports: Sequence[Report]) -> dict[str, int]:
    """The aspects that fail on some draws and not on others, by title, and on how many they fail."""
    failed = Counter(aspect.title for report in reports for aspect in report.aspects if not aspect.passed)
    return {title: times for title, times in failed.items() if times < len(reports)}


def table(rows: Iterable[Sharpness]) -> str:
    """The rows as text, a line a kernel."""
    heads = ("kernel", "mistakes", "rejected", "named", "only hidden", "steady", "right variants", "accepted")
    cells = [(r.kernel, r.mistakes, r.rejected, r.named, r.only_hidden, r.steady, r.variants, r.accepted) for r in rows]
    widths = [max(len(str(row[i])) for row in [heads, *cells]) for i in range(len(heads))]
    return "\n".join(
        "  ".join(
            str(cell).ljust(width) if i == 0 else str(cell).rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in [heads, *cells]
    )


def right_variants() -> dict[str, list[Callable]]:
    """Right kernels in other styles, by kernel name, from ``tests/variants/*.py``."""
    found: dict[str, list[Callable]] = {}
    for path in sorted((Path(__file__).parent / "variants").glob("*.py")):
        found |= runpy.run_path(str(path))["VARIANTS"]
    return found


def main() -> int:
    """Print the table for every kernel; the exit code is 1 where there is a gap."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50, help="hidden draws of each check (default: 50)")
    parser.add_argument("kernels", nargs="*", help="kernels to measure (default: all)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    variants = right_variants()
    rows = []
    for name in arguments.kernels or catalog.kernels():
        rows.append(measure(name, variants.get(name, []), range(arguments.seeds)))
        print(f"measured {name}", file=sys.stderr)
    print(table(rows))
    gaps = [gap for row in rows for gap in row.gaps]
    print("\n".join(gaps) if gaps else f"No gap over the visible cases and {arguments.seeds} hidden draws of each.")
    return 1 if gaps else 0


if __name__ == "__main__":
    sys.exit(main())
