"""The command `gridsim init`: files to begin with."""

from __future__ import annotations

import os

import click

#: What is asked for -> its files; `all` has all of them.
_SCENARIO = ("scenario.toml",)
FILES = {
    "scenario": _SCENARIO,
    "study": (*_SCENARIO, "study.toml"),
    "scheduler": (*_SCENARIO, "dealing.py", "test_dealing.py"),
    "traces": ("log.toml", "jobs.swf", "hosts.avt"),
}
FILES["all"] = tuple(dict.fromkeys(name for names in FILES.values() for name in names))
#: What is asked for -> a command for it.
_NEXT = {
    "scenario": "gridsim compare scenario.toml",
    "study": "gridsim sweep study.toml",
    "scheduler": "gridsim compare scenario.toml --schedulers dealing:Dealing,fair-tree,mincent",
    "traces": "gridsim compare log.toml",
    "all": "gridsim compare scenario.toml",
}


@click.command()
@click.argument("what", type=click.Choice(list(FILES)), default="scenario")
@click.argument("folder", default=".")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def init(what: str, folder: str, as_json: bool) -> None:
    """Write files to begin with, with comments, to FOLDER.

    WHAT: scenario (the default); study, a sweep of it; scheduler, one of your own with its test; traces, a
    small log and when hosts were up, with a scenario; or all.  No file is overwritten: those that exist stay.
    """
    from gridsim.support.files import atomic_file
    from gridsim.support.text import to_json

    os.makedirs(folder, exist_ok=True)
    written, kept = [], []
    for name in FILES[what]:
        file = os.path.join(folder, name)
        if os.path.lexists(file):
            kept.append(file)
            continue
        with atomic_file(file) as stream:
            stream.write(example(name))
        written.append(file)
    if as_json:
        click.echo(to_json({"written": written, "kept": kept}))
        return
    for file in written:
        click.echo(f"wrote {file}")
    for file in kept:
        click.echo(f"kept {file}, which exists")
    click.echo(f"next: {'' if folder == '.' else f'cd {folder} && '}{_NEXT[what]}")


def example(name: str) -> bytes:
    """Return the content of a file that `init` writes."""
    from importlib.resources import files

    stored = f"{name}.txt" if name.endswith(".py") else name  # Python files there would be modules of gridsim
    return files("gridsim.cli").joinpath("examples", stored).read_bytes()
