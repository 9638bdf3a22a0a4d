"""How far a run is: a rate that can be read, and few lines in a log."""

import io

import pytest
from rich.console import Console

from autograder.grading.progress import LogLines, bar, rate


@pytest.mark.parametrize(("speed", "words"), [(0, ""), (3.21, "3.2 a second"), (0.5, "30.0 a minute")])
def test_a_rate_in_words(speed, words):
    assert rate(speed) == words


def test_a_log_gets_a_line_each_minute_and_none_at_the_end(capsys):
    now = [0.0]
    lines = LogLines(lambda: now[0])
    lines(0, 200)
    for _ in range(9):
        now[0] += 20
        lines(20, 200)
    now[0] += 100
    lines(20, 200)
    assert capsys.readouterr().out.splitlines() == [
        "60 of 200 graded, 1.0 a second, 2 min left",
        "120 of 200 graded, 1.0 a second, 1 min left",
        "180 of 200 graded, 1.0 a second, 0 min left",
    ]


def test_the_bar_shows_how_many_how_fast_and_how_long():
    screen, now = io.StringIO(), [0.0]
    console = Console(file=screen, force_terminal=True, width=100, get_time=lambda: now[0])
    with bar(console) as progress:
        for _ in range(10):
            now[0] += 5
            progress(10, 200)
    assert "100/200" in screen.getvalue()
    assert "2.0 a second" in screen.getvalue()
    assert "0:00:50" in screen.getvalue()
