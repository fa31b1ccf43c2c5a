"""The command `gridsim schema`."""

from __future__ import annotations

import click


@click.command()
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
