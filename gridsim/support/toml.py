"""Reader of untrusted TOML: invalid text fails quickly, with one error that names FILE or FILE:LINE."""

from __future__ import annotations

import re
from typing import Any

from gridsim.errors import ScenarioError
from gridsim.support.files import StrPath, open_regular

#: Limits of a TOML text: bytes of a file (a million speeds take 8 MB, and the parser takes about 2 s per MB),
#: parts of a key, levels of nested tables and lists, and digits of a whole number.
MAX_BYTES, MAX_PARTS, MAX_DEPTH, MAX_DIGITS = 1 << 24, 64, 64, 100

# No match of either pattern can begin inside a longer part, so that a search takes linear time.
_PART = r"""(?:(?<![\w-])[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"{_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{MAX_PARTS}}}")
_LONG_NUMBER = re.compile(rf"(?<![0-9_])[0-9](?:_?[0-9]){{{MAX_DIGITS}}}")


def read(file: StrPath) -> str:
    """Return the text of a file.

    Raises
    ------
    ScenarioError
        If the file is too long or not UTF-8.
    OSError
        If it cannot be read or is not a regular file.
    """
    with open_regular(file) as stream:
        content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ScenarioError(f"{file}: the file must have at most {MAX_BYTES} bytes, got more")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = content[error.start]
        raise ScenarioError(f"{file}:{line}: byte 0x{byte:02x} is not UTF-8 text") from error


def parse(toml: str, file: StrPath) -> dict[str, Any]:
    """Return the tables of a TOML text that was read from `file`.

    Raises
    ------
    ScenarioError
        If the text is not TOML, has a key of more than `MAX_PARTS` parts (the parser takes time cubic in
        their number), values nested deeper than `MAX_DEPTH`, or a number of more than `MAX_DIGITS` digits.
    """
    for number, line in enumerate(toml.split("\n"), 1):
        if line.count(".") >= MAX_PARTS and _LONG_KEY.search(line):
            raise ScenarioError(f"{file}:{number}: keys must have at most {MAX_PARTS} parts")
    import tomllib  # imported here since scenarios made in Python do not need it

    try:
        document = tomllib.loads(toml)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(_error_text(file, toml, str(error))) from error
    except RecursionError:
        raise ScenarioError(f"{file}: values are nested too deeply: at most {MAX_DEPTH} levels") from None
    except ValueError as error:  # more digits than Python converts to a number
        match = _LONG_NUMBER.search(toml)
        line_number = toml.count("\n", 0, match.start()) + 1 if match else 1
        raise ScenarioError(f"{file}:{line_number}: numbers must have at most {MAX_DIGITS} digits") from error
    _check(document, file)
    return document


def _check(document: dict[str, Any], file: StrPath) -> None:
    level: list[Any] = [document]
    for _ in range(MAX_DEPTH):
        entries: list[Any] = []
        for entry in level:
            entries += entry.values() if isinstance(entry, dict) else entry
        level = [entry for entry in entries if isinstance(entry, (dict, list))]
        for entry in entries:
            if type(entry) is int and abs(entry) >= 10**MAX_DIGITS:
                raise ScenarioError(f"{file}: numbers must have at most {MAX_DIGITS} digits")
        if not level:
            return
    raise ScenarioError(f"{file}: values are nested too deeply: at most {MAX_DEPTH} levels")


def _error_text(file: StrPath, toml: str, message: str) -> str:
    description, _, position = message.rpartition(" (at ")
    if match := re.fullmatch(r"line (\d+), column (\d+)\)", position):
        return f"{file}:{match[1]}: column {match[2]}: {description}"
    return f"{file}:{toml.count(chr(10)) + 1}: at the end of the file: {description}"
