"""The commands `gridsim init`, which writes example files, and `gridsim schema`."""

from __future__ import annotations

import os

import click

from gridsim.cli.options import NamingCommand, json_option

_SCENARIO = ("scenario.toml",)
#: Kind of example -> its files; the kind "all" has the files of all kinds but the lesson.
FILES = {
    "scenario": _SCENARIO,
    "study": (*_SCENARIO, "study.toml"),
    "scheduler": (*_SCENARIO, "dealing.py", "test_dealing.py"),
    "roles": (*_SCENARIO, "pigeon.py", "test_pigeon.py"),
    "traces": ("log.toml", "jobs.swf", "hosts.avt"),
}
FILES["all"] = tuple(dict.fromkeys(name for names in FILES.values() for name in names))
FILES["lesson"] = ("exercises.md", "lesson.toml", "queue.toml", "two.py", "first_hour.ipynb")
#: Kind of example -> a command that uses it.
_NEXT_COMMAND = {
    "scenario": "gridsim compare scenario.toml",
    "study": "gridsim sweep study.toml",
    "scheduler": "gridsim compare scenario.toml --schedulers dealing:Dealing,fair-tree,mincent",
    "roles": "gridsim compare scenario.toml --schedulers pigeon:Pigeon,sparrow,fair-tree",
    "traces": "gridsim compare log.toml",
    "all": "gridsim compare scenario.toml",
    "lesson": "gridsim run lesson.toml --scheduler fcfs-pull --bags",
}


@click.command(cls=NamingCommand)
@click.argument("kind", type=click.Choice(list(FILES)), default="scenario")
@click.argument("folder", default=".")
@json_option
def init(kind: str, folder: str, as_json: bool) -> None:
    """Write commented example files to FOLDER.

    Kinds of examples: scenario (the default); study, a sweep of the scenario; scheduler, a new scheduler with
    its test; roles, a scheduler with several classes of nodes; traces, a small job log and an availability
    trace, with a scenario; all of these; or lesson, a sheet of exercises for 90 minutes, with its
    scenarios, a scheduler to complete and a notebook.  Existing files are not overwritten.
    """
    from gridsim.support.files import atomic_file
    from gridsim.support.text import to_json

    os.makedirs(folder, exist_ok=True)
    new_files, existing_files = [], []
    for name in FILES[kind]:
        file = os.path.join(folder, name)
        if os.path.lexists(file):
            existing_files.append(file)
            continue
        with atomic_file(file) as stream:
            stream.write(example(name))
        new_files.append(file)
    if as_json:
        click.echo(to_json({"written": new_files, "kept": existing_files}))
        return
    for file in new_files:
        click.echo(f"wrote {file}")
    for file in existing_files:
        click.echo(f"kept {file}, which exists")
    click.echo(f"next: {'' if folder == '.' else f'cd {folder} && '}{_NEXT_COMMAND[kind]}")


def example(name: str) -> bytes:
    """Return the content of a file that `init` writes."""
    from importlib.resources import files

    # examples in Python have the ending .txt here, since .py files would be modules of gridsim
    resource = f"{name}.txt" if name.endswith(".py") else name
    return files("gridsim.cli").joinpath("examples", resource).read_bytes()


@click.command(cls=NamingCommand)
@click.option("--out", metavar="FILE", help="Write the schema to FILE instead of standard output.")
@click.option(
    "--json", "as_json", is_flag=True, help="With --out, answer in JSON; the schema is JSON in any case."
)
def schema(out: str | None, as_json: bool) -> None:
    """Print the JSON Schema of scenario files, for editors that complete and check them."""
    import json

    from gridsim.cli.output import check_output
    from gridsim.cli.schema import scenario_schema
    from gridsim.support.files import atomic_file
    from gridsim.support.text import to_json

    document = json.dumps(scenario_schema(), indent=2, allow_nan=False)
    if out is None:
        click.echo(document)
        return
    check_output("--out", out)
    with atomic_file(out) as stream:
        stream.write(f"{document}\n".encode())
    click.echo(to_json({"out": out}) if as_json else f"saved {out}")
