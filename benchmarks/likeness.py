"""What comparing the code of all students of a class with each other costs.

python -m benchmarks.likeness --students 1000
"""

import argparse
import random
import time

from autograder.course.likeness import alike
from autograder.grading.results import KernelMark, SubmissionResult


def answer(draw: random.Random, kernel: str, lines: int) -> str:
    """A kernel with a body of random statements."""
    names = "abcdefghij"
    body = []
    for _ in range(lines):
        left, one, other = (draw.choice(names) for _ in range(3))
        body.append(f"    {left} = {one} {draw.choice('+-*/@')} {other}[{draw.randrange(9)}:]")
    return f"def {kernel}(query, key):\n" + "\n".join(body) + "\n    return a\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--students", type=int, default=1000)
    parser.add_argument("--kernels", type=int, default=6)
    parser.add_argument("--lines", type=int, default=8)
    arguments = parser.parse_args()
    draw = random.Random(0)
    results = []
    for number in range(arguments.students):
        marks = tuple(
            KernelMark(f"k{k}", True, 1, 1, "", (), source=answer(draw, f"k{k}", arguments.lines))
            for k in range(arguments.kernels)
        )
        results.append((f"student{number}", SubmissionResult("chapter", marks)))
    results.append(("copy", results[0][1]))
    start = time.process_time()
    pairs = alike(results)
    print(
        f"{arguments.students} students, {arguments.kernels} kernels of {arguments.lines} lines: "
        f"{time.process_time() - start:.1f} CPU seconds; pairs found: {[(p.one, p.other) for p in pairs]}"
    )


if __name__ == "__main__":
    main()
