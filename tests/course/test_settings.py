"""The file of settings: defaults, what each key means, errors that name the key, days late across clock changes."""

import datetime
import shutil
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from autograder.course.settings import Assignment, LateRule, Settings, SettingsError, read_settings

ROOT = Path(__file__).parents[2]
KNOWN = ("getting_started", "attention_layer", "self_attention")
ROME = ZoneInfo("Europe/Rome")


def moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=ROME)


def read(tmp_path, text: str) -> Settings:
    path = tmp_path / "course.toml"
    path.write_text(text, encoding="utf-8")
    return read_settings(path, KNOWN)


def test_the_example_is_read_whole(tmp_path):
    settings = read_settings(shutil.copy(ROOT / "course.example.toml", tmp_path / "course.toml"), KNOWN)
    assert settings.zone == ROME
    assert settings.late == LateRule(10, 15, 50)
    assert settings.assigned(KNOWN) == list(KNOWN)
    assert settings.of("getting_started").weight == 0
    assert settings.of("self_attention") == Assignment(2, moment("2026-11-02T18:00"))
    assert settings.of("getting_started").deadline == moment("2026-10-05T23:59:59.999999")


def test_without_a_file_all_is_assigned_and_nothing_is_late(monkeypatch, tmp_path):
    monkeypatch.setattr("autograder.course.settings.ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    settings = read_settings(None, KNOWN)
    assert settings == Settings()
    assert settings.assigned(KNOWN) == list(KNOWN)
    assert settings.of("attention_layer") == Assignment(1, None)
    assert settings.late.after_penalty(8, 3) == 8
    with pytest.raises(FileNotFoundError):
        read_settings(tmp_path / "nowhere.toml", KNOWN)


def test_only_the_chapters_that_are_named_are_assigned(tmp_path):
    assert read(tmp_path, "[chapters.self_attention]").assigned(KNOWN) == ["self_attention"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("time_zone = 'Rome'", "time_zone is 'Rome'"),
        ("time_zone = 3", "time_zone is 3"),
        ("timezone = 'UTC'", "no key timezone; did you mean time_zone"),
        ("repeated = 'last'", "repeated is 'last'; it should be one of 'latest'"),
        ("late = 10", "late is 10; it should be a table"),
        ("[late]\npercent_per_day = 110", "late.percent_per_day is 110; it should be a number from 0 to 100"),
        ("[late]\ngrace_minutes = true", "late.grace_minutes is True"),
        ("[late]\nmost_percent = nan", "late.most_percent is nan"),
        ("[late]\npercent = 3", "no key late.percent"),
        ("[late]\ngrace_minutes = 1e300", "late.grace_minutes is 1e+300; it should be a number from 0 to"),
        ("[chapters.self_attention]\ndeadline = 9999-12-31", "it should be a date and time such as"),
        ("[chapters.self_attention]\ndeadline = 0001-01-01", "it should be a date and time such as"),
        ("[chapters.self_atention]", "did you mean chapters.self_attention"),
        ("[chapters.self_attention]\nweight = -1", "chapters.self_attention.weight is -1; it should be a number of 0"),
        ("[chapters.self_attention]\nweight = inf", "weight is inf"),
        ("[chapters.self_attention]\ndeadline = 'soon'", "chapters.self_attention.deadline is 'soon'"),
        ("[chapters.self_attention]\ndeadline = 18:00:00", "deadline is '18:00:00'; it should be"),
        (
            "time_zone = 'Europe/Rome'\n[chapters.self_attention]\ndeadline = 2026-03-29T02:30:00",
            "'2026-03-29T02:30:00'; it should be a time that exists",
        ),
        ("[chapters", "is not TOML"),
    ],
)
def test_an_error_names_the_file_and_the_key(tmp_path, text, words):
    with pytest.raises(SettingsError) as error:
        read(tmp_path, text)
    assert words in str(error.value)
    assert str(tmp_path / "course.toml") in str(error.value)


def test_a_deadline_may_name_its_own_offset(tmp_path):
    settings = read(tmp_path, "time_zone = 'Europe/Rome'\n[chapters.self_attention]\ndeadline = 2026-07-01T12:00:00Z")
    assert settings.of("self_attention").deadline == moment("2026-07-01T14:00")


def test_of_the_hour_that_comes_twice_the_later_one_counts(tmp_path):
    settings = read(tmp_path, "time_zone = 'Europe/Rome'\n[chapters.self_attention]\ndeadline = 2026-10-25T02:30:00")
    deadline = settings.of("self_attention").deadline
    assert deadline.astimezone(datetime.UTC) == datetime.datetime(2026, 10, 25, 1, 30, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("deadline", "received", "days"),
    [
        ("2026-03-10T18:00", "2026-03-10T18:00", 0),
        ("2026-03-10T18:00", "2026-03-10T18:00:01", 1),
        ("2026-03-10T18:00", "2026-03-11T18:00", 1),
        ("2026-03-10T18:00", "2026-03-11T18:00:01", 2),
        # The night of 29 March has 23 hours, that of 25 October 25; a day late still ends at 18:00.
        ("2026-03-28T18:00", "2026-03-29T18:00", 1),
        ("2026-03-28T18:00", "2026-03-29T18:00:01", 2),
        ("2026-10-24T18:00", "2026-10-25T18:00", 1),
        ("2026-10-24T18:00", "2026-10-25T18:00:01", 2),
    ],
)
def test_days_are_those_of_the_calendar(deadline, received, days):
    in_utc = moment(received).astimezone(datetime.UTC)
    assert LateRule(10).days_late(moment(deadline), in_utc) == days


def test_grace_and_the_cap():
    rule = LateRule(percent_per_day=10, grace_minutes=15, most_percent=50)
    deadline = moment("2026-03-10T18:00")
    assert rule.days_late(deadline, moment("2026-03-10T18:15")) == 0
    assert rule.days_late(deadline, moment("2026-03-10T18:15:01")) == 1
    assert rule.days_late(deadline, moment("2036-03-10T18:00")) == 1000
    assert rule.after_penalty(10, 0) == 10
    assert rule.after_penalty(10, 2) == 8
    assert rule.after_penalty(10, 30) == 5
