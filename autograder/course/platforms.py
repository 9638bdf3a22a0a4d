"""What each learning platform gives out, and whose each file is.

==========  ===========================================================================================================
folder      a folder (or zip) of students' folders, nbgrader's ``STUDENT/CHAPTER/CHAPTER.ipynb`` among them
files       notebooks side by side, each named for its student
canvas      "Download submissions": ``name_12345_67890_FILE``, ``name_LATE_12345_67890_FILE``: user's and file's number
moodle      "Download all submissions": ``Full name_12345_assignsubmission_file/FILE``, in folders or flat
github      ``gh classroom clone student-repos``: ``ASSIGNMENT-submissions/ASSIGNMENT-USER``, each a git repository
exchange    nbgrader's inbound folder: ``USER+ASSIGNMENT+TIME+RANDOM`` with ``timestamp.txt``
==========  ===========================================================================================================

Only the exchange and git know when something was handed in; Canvas says whether it was late.
"""

import datetime
import os
import re
import subprocess
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from zoneinfo import ZoneInfo

from autograder.course.entries import Entry
from autograder.grading.submission import NotReadable

FORMATS = ("folder", "files", "canvas", "moodle", "github", "exchange")
CANVAS = re.compile(
    r"(?:(?P<late_anonymous>LATE_)?(?P<anonymous>anon_[0-9A-Za-z]+)|(?P<name>.+?)(?P<late>_LATE)?_(?P<id>\d+))"
    r"_(?P<file>\d+)_(?P<title>.+)",
    re.DOTALL,
)
MOODLE = re.compile(
    r"(?P<name>.+?)(?:_(?P<id>\d+))?_assignsubmission_(?P<kind>file|onlinetext)(?:_(?P<title>.*))?", re.DOTALL
)
TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?(?: [A-Za-z_/]+| [+-]\d{4})?"
EXCHANGE = re.compile(rf"(?P<user>.+)\+(?P<assignment>[^+]+)\+(?P<time>{TIME})(?:\+[\w-]+)?")
SUBMISSIONS = "-submissions"
GIT_SECONDS = 20
# The settings of a repository that a student made could have git run a program, to fetch what is missing for instance.
GIT_READS_ALONE = {
    "GIT_DIR": ".git",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_CONFIG_GLOBAL": os.devnull,
}


@dataclass
class HandIn:
    """What one student handed in at one time: files from old to new, and what the platform says of them.

    Parameters
    ----------
    name
        The student's name as the platform has it.
    ident
        The number by which the platform tells students of one name apart; "" where it has none.
    received
        When it was handed in, where that is known.
    late
        Whether the platform says that it was late.
    """

    name: str
    ident: str = ""
    entries: list[Entry] = field(default_factory=list)
    received: datetime.datetime | None = None
    late: bool = False


def recognised(entries: Sequence[Entry], source: Path) -> str:
    """Which of ``FORMATS`` a source is, by what it is."""
    if source.is_dir() and _repositories(source):
        return "github"
    paths = [entry.path for entry in without_root(entries)]
    if any(EXCHANGE.fullmatch(path.parts[0]) for path in paths if len(path.parts) > 1):
        return "exchange"
    if any(MOODLE.fullmatch(part) for path in paths for part in path.parts[:1]):
        return "moodle"
    if 2 * sum(len(path.parts) == 1 and bool(CANVAS.fullmatch(path.name)) for path in paths) >= max(len(paths), 1):
        return "canvas"
    notebooks = [entry.path for entry in entries if entry.path.suffix == ".ipynb"]
    return "files" if notebooks and all(len(path.parts) == 1 for path in notebooks) else "folder"


def is_of_a_platform(entries: Sequence[Entry]) -> bool:
    """Whether files are named for several students of Canvas or Moodle."""
    matches = [MOODLE.fullmatch(part) or CANVAS.fullmatch(part) for entry in entries for part in entry.path.parts]
    return len({match["name"] for match in matches if match}) > 1


def without_root(entries: Sequence[Entry]) -> list[Entry]:
    """The entries below the folders that hold them all, as a zip often has one, and nbgrader's ``inbound``."""
    while len({entry.path.parts[0] for entry in entries}) == 1 and all(len(e.path.parts) > 1 for e in entries):
        if EXCHANGE.fullmatch(top := entries[0].path.parts[0]) or MOODLE.fullmatch(top):
            break
        entries = [entry.below(PurePosixPath(*entry.path.parts[1:])) for entry in entries]
    inbound = [entry for entry in entries if "inbound" in entry.path.parts[:-2]]
    if inbound and len({entry.path.parts.index("inbound") for entry in inbound}) == 1:
        start = inbound[0].path.parts.index("inbound") + 1
        return [entry.below(PurePosixPath(*entry.path.parts[start:])) for entry in inbound]
    return list(entries)


def hand_ins(
    source: Path, entries: Sequence[Entry], kind: str, stems: Collection[str], problems: list[str]
) -> list[HandIn]:
    """The hand-ins in a source of one of ``FORMATS``; ``problems`` gains files whose student cannot be told."""
    if kind == "folder":
        return _folders(entries, source.is_dir(), stems, problems)
    if kind == "files":
        return list(_files(entries, stems, problems))
    if kind == "github":
        return list(_github(source, entries, problems))
    reader = {"canvas": _canvas, "moodle": _moodle, "exchange": _exchange}[kind]
    return reader(without_root(entries), problems)


def _folders(entries: Sequence[Entry], is_folder: bool, stems: Collection[str], problems: list[str]) -> list[HandIn]:
    """A folder for each student; a zip beside them is a student's that is packed."""
    if not is_folder and all(len(e.path.parts) > 2 and e.path.parts[1] not in stems for e in entries):
        entries = without_root(entries)
    found: dict[str, HandIn] = {}
    for entry in entries:
        name = entry.path.parts[0]
        if len(entry.path.parts) == 1:
            if entry.path.suffix.lower() != ".zip":
                problems.append(f"{entry.path}: it lies in no student's folder.")
                continue
            name = entry.path.stem
        else:
            entry = entry.below(PurePosixPath(*entry.path.parts[1:]))
        found.setdefault(name, HandIn(name)).entries.append(entry)
    return list(found.values())


def _files(entries: Sequence[Entry], stems: Collection[str], problems: list[str]) -> Iterator[HandIn]:
    """A file for each student, which may also name the chapter: ``anna_softmax.ipynb``, ``softmax - Anna.ipynb``."""
    for entry in entries:
        name = entry.path.stem
        for stem in stems:
            name = re.sub(rf"^{stem}([\s_.-]+|$)|[\s_.-]+{stem}$", "", name)
        if name:
            yield HandIn(name, "", [entry])
        else:
            problems.append(f"{entry.path}: its name does not say whose it is.")


def _canvas(entries: Sequence[Entry], problems: list[str]) -> list[HandIn]:
    found: dict[tuple[str, str], HandIn] = {}
    parts = []
    for entry in entries:
        if match := CANVAS.fullmatch(entry.path.parts[0]):
            parts.append((int(match["file"]), match, entry))
        else:
            problems.append(f"{entry.path}: its name is not one that Canvas gives.")
    for number, match, entry in sorted(parts, key=lambda part: part[0]):
        name, ident = match["name"] or match["anonymous"], match["id"] or match["anonymous"]
        hand_in = found.setdefault((name, ident), HandIn(name, ident))
        hand_in.entries.append(entry.below(PurePosixPath(str(number), match["title"])))
        hand_in.late = hand_in.late or bool(match["late"] or match["late_anonymous"])
    return list(found.values())


def _moodle(entries: Sequence[Entry], problems: list[str]) -> list[HandIn]:
    found: dict[tuple[str, str], HandIn] = {}
    for entry in entries:
        match = MOODLE.fullmatch(entry.path.parts[0])
        if not match:
            problems.append(f"{entry.path}: its name is not one that Moodle gives.")
        elif match["kind"] == "onlinetext":
            problems.append(f"{entry.path}: {match['name']} wrote in Moodle's text field, which holds no notebook.")
        else:
            ident = match["id"] or ""
            hand_in = found.setdefault((match["name"], ident), HandIn(match["name"], ident))
            inside = [match["title"]] if match["title"] else []
            hand_in.entries.append(entry.below(PurePosixPath(*inside, *entry.path.parts[1:])))
    return list(found.values())


def _exchange(entries: Sequence[Entry], problems: list[str]) -> list[HandIn]:
    found: dict[str, HandIn] = {}
    for entry in entries:
        match = EXCHANGE.fullmatch(top := entry.path.parts[0])
        if not match or len(entry.path.parts) == 1:
            problems.append(f"{entry.path}: it is no hand-in of nbgrader's exchange.")
            continue
        hand_in = found.setdefault(top, HandIn(match["user"], received=parsed_time(match["time"])))
        # The notebooks lie below the assignment's name, as in nbgrader's own `submitted` folder.
        hand_in.entries.append(entry.below(PurePosixPath(match["assignment"], *entry.path.parts[1:])))
        if entry.path.parts[1:] == ("timestamp.txt",):
            hand_in.received = stamp_beside(entry.path, [entry]) or hand_in.received
    return list(found.values())


def _repositories(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink() and _is_clone(path))


def _is_clone(path: Path) -> bool:
    git = path / ".git"
    return os.path.isdir(git) and not git.is_symlink()


def _github(source: Path, entries: Sequence[Entry], problems: list[str]) -> Iterator[HandIn]:
    repositories = [path.name for path in _repositories(source)]
    assignment = _assignment_of(source.resolve().name, repositories)
    for name in repositories:
        if assignment is None or not name.startswith(assignment):
            problems.append(f"{name}: which part of this name is the student's cannot be told.")
            continue
        own = [entry for entry in entries if entry.path.parts[0] == name]
        inside = [entry.below(PurePosixPath(*entry.path.parts[1:])) for entry in own]
        yield HandIn(name.removeprefix(assignment), "", inside, _commit_time(source / name))
    for entry in entries:
        if entry.path.parts[0] not in repositories:
            problems.append(f"{entry.path}: it lies in no student's repository.")


def _assignment_of(folder: str, repositories: Sequence[str]) -> str | None:
    """What the names of all repositories begin with: the assignment's name and a hyphen."""
    slug = folder.removesuffix(SUBMISSIONS) + "-"
    if folder.endswith(SUBMISSIONS) and all(name.startswith(slug) for name in repositories):
        return slug
    common = os.path.commonprefix(list(repositories)) if len(repositories) > 1 else ""
    return common[: common.rindex("-") + 1] if "-" in common else None


def _commit_time(repository: Path) -> datetime.datetime | None:
    """The time of the last commit, by the clock of whoever made it; None where git cannot say."""
    command = ["git", "-c", "safe.directory=*", "-c", "core.fsmonitor=false", "cat-file", "commit", "HEAD"]
    environment = {"PATH": os.environ.get("PATH", os.defpath), "GIT_CONFIG_NOSYSTEM": "1", "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            command,
            cwd=repository,
            env=environment | GIT_READS_ALONE,
            capture_output=True,
            timeout=GIT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(rb"^committer .*> (\d{1,11}) [+-]\d{4}$", done.stdout.partition(b"\n\n")[0], re.MULTILINE)
    return datetime.datetime.fromtimestamp(int(match[1]), datetime.UTC) if match else None


def stamp_beside(path: PurePosixPath, entries: Iterable[Entry]) -> datetime.datetime | None:
    """The time in nbgrader's ``timestamp.txt`` in the folder of a file; None where there is none."""
    for entry in entries:
        if entry.path == path.with_name("timestamp.txt"):
            try:
                return parsed_time(entry.read()[:100].decode("utf-8", "replace").strip())
            except NotReadable:
                return None
    return None


def parsed_time(text: str) -> datetime.datetime | None:
    """The moment in a time of nbgrader's, such as ``2026-03-29 10:00:00.000000 UTC``; None where it cannot be read."""
    if not re.fullmatch(TIME, text):
        return None
    date, hour, *zone = text.split(" ")
    try:
        if zone and zone[0][0] in "+-":
            return datetime.datetime.fromisoformat(f"{date} {hour}{zone[0]}").astimezone(datetime.UTC)
        naive = datetime.datetime.fromisoformat(f"{date} {hour}")
        return naive.replace(tzinfo=ZoneInfo(zone[0] if zone else "UTC")).astimezone(datetime.UTC)
    except (ValueError, LookupError, OverflowError):
        return None
