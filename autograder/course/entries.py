"""The files in what a platform gave out, a folder or a zip, read with care: students chose their names and contents."""

import io
import os
import stat
import unicodedata
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from autograder.grading.placing import DEPTH_LIMIT
from autograder.grading.submission import SIZE_LIMIT, NotReadable
from autograder.telling import JOINERS

ENTRY_LIMIT = 100_000  # files in one zip
RATIO_LIMIT = 200  # how many times smaller than itself a large file may be packed
RATIO_FROM = 1_000_000  # bytes from which a file is large
UTF8_NAME = 0x800
ENCRYPTED = 0x1
LEFT_OUT = {".git", ".github", ".ipynb_checkpoints", "__MACOSX", "__pycache__", ".venv", ".DS_Store", "Thumbs.db"}


@dataclass(frozen=True)
class Entry:
    """A file: where it lies below its source, and how to read it, which raises ``NotReadable`` where that is unsafe."""

    path: PurePosixPath
    read: Callable[[], bytes]

    @property
    def name(self) -> str:
        return self.path.name

    def below(self, path: PurePosixPath) -> "Entry":
        """The same file under another path."""
        return Entry(path, self.read)


def entries_of(source: Path, problems: list[str]) -> list[Entry]:
    """The files of a folder or a zip, in order of their paths; ``problems`` gains what was left out for safety.

    Raises
    ------
    NotReadable
        If the source is neither a folder nor a zip, or a zip that unpacks to more than it holds.
    """
    found = _in_folder(source, problems) if source.is_dir() else entries_of_zip(source, problems)
    return sorted((entry for entry in found if not _left_out(entry.path)), key=lambda entry: entry.path.parts)


def with_zips_opened(entries: list[Entry], problems: list[str]) -> list[Entry]:
    """The files with those of the zips among them, which a student may have packed."""
    opened = []
    for entry in entries:
        if entry.path.suffix.lower() != ".zip":
            opened.append(entry)
            continue
        try:
            inner = entries_of_zip(io.BytesIO(entry.read()), problems, entry.path)
        except NotReadable as error:
            problems.append(f"{entry.path}: {error}")
            continue
        opened += [inside for inside in inner if not _left_out(inside.path)]
    return opened


def _left_out(path: PurePosixPath) -> bool:
    return bool(LEFT_OUT.intersection(path.parts)) or path.name.startswith("._")


def _in_folder(folder: Path, problems: list[str]) -> Iterator[Entry]:
    def tell(error: OSError) -> None:
        problems.append(f"{_clean(os.path.relpath(error.filename, folder))}: it cannot be read: {error.strerror}.")

    for directory, folders, files in os.walk(folder, onerror=tell):
        if len(Path(directory).relative_to(folder).parts) >= DEPTH_LIMIT and folders:
            shown = _clean(Path(directory).relative_to(folder).as_posix())
            problems.append(f"{shown}: folders that are nested more than {DEPTH_LIMIT} deep are left out.")
            folders.clear()
        links = [name for name in folders if os.path.islink(os.path.join(directory, name))]
        folders[:] = sorted(name for name in folders if name not in {*links, *LEFT_OUT})
        for name in sorted([*files, *links]):
            path = Path(directory, name)
            shown = _clean(path.relative_to(folder).as_posix())
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode):
                yield Entry(shown, lambda path=path: _read_regular(path))
            else:
                kind = "link, which is not followed" if stat.S_ISLNK(mode) else "device, not a file"
                problems.append(f"{shown}: it is a {kind}.")


def _read_regular(path: Path) -> bytes:
    """The bytes of a file that is no link and not larger than a notebook may be."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        return _within_limit(file.read(SIZE_LIMIT + 1))


def entries_of_zip(source: Path | io.BytesIO, problems: list[str], prefix: PurePosixPath | None = None) -> list[Entry]:
    """The files in a zip; with ``prefix`` as if it were a folder of that path."""
    size = source.stat().st_size if isinstance(source, Path) else source.getbuffer().nbytes
    try:
        archive = zipfile.ZipFile(source)
    except FileNotFoundError:
        raise
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        raise NotReadable("It is neither a folder nor a zip.") from None
    infos = [info for info in archive.infolist() if not info.is_dir()]
    if len(infos) > ENTRY_LIMIT:
        raise NotReadable(f"It holds {len(infos)} files; at most {ENTRY_LIMIT} are read.")
    if sum(info.compress_size for info in infos) > size:
        raise NotReadable("Its files overlap, as in a zip bomb; nothing of it was read.")
    found = []
    for info in infos:
        path = _clean(_name_of(info))
        if info.external_attr >> 16 and stat.S_ISLNK(info.external_attr >> 16):
            problems.append(f"{path}: it is a link, which is not followed.")
        elif path.is_absolute() or ".." in path.parts or "\\" in str(path) or ":" in path.parts[0][:2]:
            problems.append(f"{path}: its path leads out of the zip.")
        else:
            found.append(Entry((prefix or PurePosixPath()) / path, lambda info=info: _read_packed(archive, info)))
    return found


def _name_of(info: zipfile.ZipInfo) -> str:
    """The name of a file in a zip, which many programs write as UTF-8 without saying so."""
    if not info.flag_bits & UTF8_NAME:
        try:
            return info.filename.encode("cp437").decode("utf-8")
        except UnicodeError:
            pass
    return info.filename


def _clean(path: str) -> PurePosixPath:
    """A path in one normal form of Unicode, without what a terminal obeys and what cannot be written."""
    text = unicodedata.normalize("NFC", path.encode("utf-8", "replace").decode())
    obeyed = {letter for letter in text if unicodedata.category(letter) in ("Cc", "Cf")} - set(JOINERS)
    return PurePosixPath("".join(" " if letter in obeyed else letter for letter in text))


def _read_packed(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if info.flag_bits & ENCRYPTED:
        raise NotReadable("It is encrypted.")
    try:
        with archive.open(info) as file:
            data = file.read(SIZE_LIMIT + 1)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError, ValueError) as error:
        raise NotReadable(f"It cannot be unpacked ({error}).") from None
    except Exception as error:  # zlib, bz2 and lzma each have an error of their own
        raise NotReadable(f"It cannot be unpacked ({type(error).__name__}: {error}).") from None
    if len(data) > RATIO_FROM and len(data) > RATIO_LIMIT * max(info.compress_size, 1):
        raise NotReadable(f"It unpacks to over {RATIO_LIMIT} times its size, as a zip bomb does.")
    return _within_limit(data)


def _within_limit(data: bytes) -> bytes:
    if len(data) > SIZE_LIMIT:
        raise NotReadable(f"It has over {SIZE_LIMIT / 1e6:.0f} MB, more than a notebook may have.")
    return data
