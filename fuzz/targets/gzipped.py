"""Texts with or without gzip: reading of lines, and detection of the trace format."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Iterator

from files import check_refusal, write_file
from samples import SWF
from zips import default_mutation

from gridsim.errors import TraceFormatError
from gridsim.traces._text import text_lines
from gridsim.traces.lint import detect_format

from . import avt, fta, gwf, hosts, tr


def seeds() -> Iterator[bytes]:
    texts = [SWF, *(text for module in (avt, fta, gwf, hosts, tr) for text in module.seeds())]
    for text in texts:
        yield gzip.compress(text, mtime=0)
    yield texts[0]
    yield gzip.compress(SWF, mtime=0)[:-9]
    yield gzip.compress(SWF, mtime=0) + gzip.compress(b"7 8 9\n" + b"\xff", mtime=0) + b"\0" * 7
    yield gzip.compress(b"x" * 5000 + b"\n\xc3", mtime=0)


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """Return mutated bytes, or compress a mutated text again."""
    if random.Random(seed).random() < 0.3:
        return default_mutation(data, max_size)
    try:
        text = zlib.decompressobj(31).decompress(data, 1 << 13)
    except zlib.error:
        return default_mutation(data, max_size)
    return gzip.compress(default_mutation(text, max_size), 1, mtime=0)[:max_size]


def execute(data: bytes) -> None:
    path = write_file("text.gz" if len(data) % 2 else "text", data)
    with check_refusal(TraceFormatError, naming=path):
        lines = list(text_lines(path))
        assert all("\n" not in line and "\0" not in line for line in lines)
        if data[:2] == b"\x1f\x8b":
            text = gzip.decompress(data).decode()
            assert sum(map(len, lines)) + text.count("\n") + text.count("\ufeff") >= len(text)
            assert list(text_lines(write_file("plain", text.encode()))) == lines
    with check_refusal(TraceFormatError, naming=path):
        detect_format(path)
