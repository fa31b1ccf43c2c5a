"""Reading of TOML that a user gives: bad text fails soon, with one error naming FILE or FILE:LINE."""

from __future__ import annotations

import re
from typing import Any

from gridsim.errors import ScenarioError
from gridsim.support.files import StrPath, opened

#: Limits of a TOML text: bytes of a file (a million speeds are 8 MB; the parser takes about 2 s per MB),
#: parts of a key, levels of nested tables and lists, and digits of a whole number.
MOST_BYTES, MOST_PARTS, DEEPEST, MOST_DIGITS = 1 << 24, 64, 64, 100

# A match of either pattern begins only where no other part goes on, so that a search takes linear time.
_PART = r"""(?:(?<![\w-])[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"{_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{MOST_PARTS}}}")
_LONG_NUMBER = re.compile(rf"(?<![0-9_])[0-9](?:_?[0-9]){{{MOST_DIGITS}}}")


def read(file: StrPath) -> str:
    """Return the text of a file.

    Raises ScenarioError if it is too long or not UTF-8, and OSError as `opened` does.
    """
    with opened(file) as stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ScenarioError(f"{file}: more than {MOST_BYTES} bytes, which no file of a study has")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = content[error.start]
        raise ScenarioError(f"{file}:{line}: byte 0x{byte:02x} is not UTF-8 text") from error


def parsed(toml: str, file: StrPath) -> dict[str, Any]:
    """Return the tables of a TOML text that was read from `file`.

    Raises ScenarioError with FILE:LINE if it is not TOML, and for keys of more than `MOST_PARTS` parts (the
    parser's time grows with the cube of their number).  Also raises it, with FILE or FILE:LINE, for values
    nested deeper than `DEEPEST` and numbers of more than `MOST_DIGITS` digits.
    """
    for number, line in enumerate(toml.split("\n"), 1):
        if line.count(".") >= MOST_PARTS and _LONG_KEY.search(line):
            raise ScenarioError(f"{file}:{number}: a key of more than {MOST_PARTS} parts")
    import tomllib  # not needed where scenarios are made by code

    try:
        document = tomllib.loads(toml)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(_fault(file, toml, str(error))) from error
    except RecursionError:
        raise ScenarioError(f"{file}: values lie too deeply in one another") from None
    except ValueError as error:  # more digits than Python converts to a number
        found = _LONG_NUMBER.search(toml)
        at = toml.count("\n", 0, found.start()) + 1 if found else 1
        raise ScenarioError(f"{file}:{at}: a number of more than {MOST_DIGITS} digits") from error
    _check(document, file)
    return document


def _check(document: dict[str, Any], file: StrPath) -> None:
    level: list[Any] = [document]
    for _ in range(DEEPEST):
        entries: list[Any] = []
        for each in level:
            entries += each.values() if isinstance(each, dict) else each
        level = [each for each in entries if isinstance(each, (dict, list))]
        for each in entries:
            if type(each) is int and abs(each) >= 10**MOST_DIGITS:
                raise ScenarioError(f"{file}: a number of more than {MOST_DIGITS} digits")
        if not level:
            return
    raise ScenarioError(f"{file}: values lie too deeply in one another")


def _fault(file: StrPath, toml: str, message: str) -> str:
    said, _, place = message.rpartition(" (at ")
    if match := re.fullmatch(r"line (\d+), column (\d+)\)", place):
        return f"{file}:{match[1]}: column {match[2]}: {said}"
    return f"{file}:{toml.count(chr(10)) + 1}: at the end of the file: {said}"
