"""The instructor's settings: one small TOML file, ``course.toml``; where there is none, the defaults below hold."""

import datetime
import difflib
import math
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from autograder.notebooks import ROOT

NAME = "course.toml"
REPEATED = ("latest", "latest in time", "first")
DAY = datetime.timedelta(days=1)
MOST_DAYS_COUNTED = 1000
MOST_MINUTES = 60 * 24 * 365  # of grace
YEARS = range(1970, 9000)  # in which the calendar can count days on from a deadline


class SettingsError(ValueError):
    """What is wrong in the file of settings: the file, the key, what was given, what was wanted."""


@dataclass(frozen=True)
class LateRule:
    """What a late hand-in costs: a part of the mark for each day that was begun after the deadline.

    Parameters
    ----------
    percent_per_day
        Percent of the earned mark; 0 for no penalty.
    grace_minutes
        How long after the deadline, and after each further day, a hand-in still counts as before it.
    most_percent
        The penalty never takes more than this.
    """

    percent_per_day: float = 0.0
    grace_minutes: float = 0.0
    most_percent: float = 100.0

    def days_late(self, deadline: datetime.datetime, received: datetime.datetime) -> int:
        """The days begun after a deadline, 0 in time. A day ends at the deadline's hour by the clock of its zone."""
        received = received.astimezone(datetime.UTC) - datetime.timedelta(minutes=self.grace_minutes)
        # The same hour n days later is asked of the calendar: days on which clocks change have 23 or 25 hours.
        for days in range(MOST_DAYS_COUNTED):
            if received <= (deadline + days * DAY).astimezone(datetime.UTC):
                return days
        return MOST_DAYS_COUNTED

    def after_penalty(self, score: float, days: int) -> float:
        """The mark that is left of one that was earned so many days late."""
        return score * (1 - min(days * self.percent_per_day, self.most_percent) / 100)


@dataclass(frozen=True)
class Assignment:
    """An assigned chapter: how much it counts beside the others, and when it is due (None: never late)."""

    weight: float = 1.0
    deadline: datetime.datetime | None = None


@dataclass(frozen=True)
class Settings:
    """The settings of a course; ``chapters`` are the assigned ones, all of the course where None are named."""

    chapters: Mapping[str, Assignment] = field(default_factory=dict)
    zone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))
    late: LateRule = field(default_factory=LateRule)
    repeated: str = "latest"

    def assigned(self, known: Collection[str]) -> list[str]:
        """The assigned ones among the chapters of the course."""
        return [stem for stem in known if not self.chapters or stem in self.chapters]

    def of(self, stem: str) -> Assignment:
        """The assignment of a chapter."""
        return self.chapters.get(stem, Assignment())


def default_path() -> Path:
    """Where the settings are looked for: beside the course in a checkout, else in the current directory."""
    return (ROOT if (ROOT / "pyproject.toml").exists() else Path()) / NAME


def read_settings(path: Path | None, known: Collection[str]) -> Settings:
    """The settings in a file; the defaults where no file is named and none lies at ``default_path``.

    Parameters
    ----------
    path
        The file, or None for the one at ``default_path``.
    known
        The chapters of the course.

    Raises
    ------
    SettingsError
        If the file does not say what it should; the message names the key.
    FileNotFoundError
        If a file is named and is not there.
    """
    if path is None:
        path = default_path()
        if not path.exists():
            return Settings()
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not TOML in UTF-8: {error}.") from None
    return _Reader(path, known).settings(table)


class _Reader:
    def __init__(self, path: Path, known: Collection[str]):
        self.path, self.known = path, known

    def settings(self, table: Mapping[str, Any]) -> Settings:
        self._only(table, "", ("time_zone", "repeated", "late", "chapters"))
        zone = self._zone(table.get("time_zone", "UTC"))
        repeated = table.get("repeated", "latest")
        if repeated not in REPEATED:
            raise self._wrong("repeated", repeated, f"one of {', '.join(map(repr, REPEATED))}")
        late = self._table(table, "late")
        self._only(late, "late.", ("percent_per_day", "grace_minutes", "most_percent"))
        rule = LateRule(
            self._number(late, "late", "percent_per_day", 0.0, 100.0),
            self._number(late, "late", "grace_minutes", 0.0, MOST_MINUTES),
            self._number(late, "late", "most_percent", 100.0, 100.0),
        )
        chapters = self._table(table, "chapters")
        self._only(chapters, "chapters.", self.known)
        return Settings({stem: self._assignment(chapters, stem, zone) for stem in chapters}, zone, rule, repeated)

    def _assignment(self, chapters: Mapping[str, Any], stem: str, zone: ZoneInfo) -> Assignment:
        key = f"chapters.{stem}"
        table = self._table(chapters, stem, "chapters.")
        self._only(table, f"{key}.", ("weight", "deadline"))
        deadline = self._deadline(f"{key}.deadline", table["deadline"], zone) if "deadline" in table else None
        return Assignment(self._number(table, key, "weight", 1.0), deadline)

    def _zone(self, name: Any) -> ZoneInfo:
        try:
            return ZoneInfo(name)
        except (LookupError, ValueError, TypeError, OSError, AttributeError):
            raise self._wrong("time_zone", name, 'a name of the IANA list, such as "Europe/Rome"') from None

    def _deadline(self, key: str, value: Any, zone: ZoneInfo) -> datetime.datetime:
        """A moment in the course's zone; a day without a time ends with that day."""
        if isinstance(value, str):
            try:
                value = datetime.datetime.fromisoformat(value)
            except ValueError:
                raise self._wrong(key, value, "a date and time such as 2026-03-31T18:00:00") from None
        if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
            value = datetime.datetime.combine(value, datetime.time(23, 59, 59, 999_999))
        if not isinstance(value, datetime.datetime) or value.year not in YEARS:
            raise self._wrong(key, str(value), "a date and time such as 2026-03-31T18:00:00")
        if value.tzinfo is not None:
            return value.astimezone(zone)
        moment = value.replace(tzinfo=zone, fold=1)  # of the hour that comes twice in autumn, the later one
        if moment.astimezone(datetime.UTC).astimezone(zone).replace(tzinfo=None) != value:
            raise self._wrong(key, value.isoformat(), f"a time that exists: in {zone.key} clocks skip this one")
        return moment

    def _number(self, table: Mapping[str, Any], owner: str, name: str, default: float, most: float = math.inf) -> float:
        value = table.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most or value == math.inf:
            limit = f"from 0 to {most:g}" if most < math.inf else "of 0 or more"
            raise self._wrong(f"{owner}.{name}", value, f"a number {limit}")
        return float(value)

    def _table(self, owner: Mapping[str, Any], name: str, prefix: str = "") -> Mapping[str, Any]:
        value = owner.get(name, {})
        if not isinstance(value, Mapping):
            raise self._wrong(f"{prefix}{name}", value, f"a table, which begins with the line [{prefix}{name}]")
        return value

    def _only(self, table: Mapping[str, Any], prefix: str, allowed: Collection[str]) -> None:
        for name in table:
            if name not in allowed:
                near = difflib.get_close_matches(name, allowed, 1)
                wanted = f"did you mean {prefix}{near[0]}?" if near else f"the keys here are {', '.join(allowed)}."
                raise SettingsError(f"{self.path}: there is no key {prefix}{name}; {wanted}")

    def _wrong(self, key: str, given: Any, wanted: str) -> SettingsError:
        return SettingsError(f"{self.path}: {key} is {given!r}; it should be {wanted}.")
