"""How long a student waits: the time of each visible check, and what importing the course adds to importing PyTorch.

Run ``python benchmarks/visible_check.py``. A check is run on a copy of the reference, and on each known mistake, which
costs more because the mistakes are compared one by one; the slowest counts.
"""

import statistics
import subprocess
import sys
import time
from functools import partial

from autograder import catalog, evaluate
from autograder.checking import edited

ROUNDS = 5
IMPORTS = {
    "torch": "import torch",
    "torch and the course": "import torch; from autograder import check, evaluate, hint",
}


def seconds(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def median_seconds(work) -> float:
    return statistics.median(seconds(work) for _ in range(ROUNDS))


def main() -> None:
    import torch

    torch.set_num_threads(1)
    print(f"{'visible check of':34}{'right':>10}{'slowest mistake':>18}")
    for name in catalog.kernels():
        check = catalog.check_of(name)
        right = edited(check.reference)
        evaluate(name, right)
        slowest = max(median_seconds(partial(evaluate, name, mistake.kernel)) for mistake in check.mistakes)
        print(f"{name:34}{median_seconds(partial(evaluate, name, right)):>9.3f}s{slowest:>17.3f}s")
    print()
    # Side by side, in turn, so that a drift of the machine falls on both.
    times = {what: [] for what in IMPORTS}
    for _ in range(ROUNDS):
        for what, code in IMPORTS.items():
            times[what].append(seconds(partial(subprocess.run, [sys.executable, "-c", code], check=True)))
    for what, values in times.items():
        print(f"import {what:24}{statistics.median(values):>8.3f}s (median of {ROUNDS})")


if __name__ == "__main__":
    main()
