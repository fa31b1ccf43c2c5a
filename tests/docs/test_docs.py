"""The documentation: links have targets, and tables are complete and correct."""

import re
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

import gridsim as gs
from gridsim.cli.main import cli
from gridsim.cli.reference import key_rows, scenario_tables
from gridsim.cli.scenario_flags import default_scenario
from gridsim.cli.settings import parse_setting
from gridsim.results.descriptions import FACTS, PROVENANCE, TABLE_TEXTS
from gridsim.results.schema import TABLES
from gridsim.scheduling.registry import make_scheduler, registered
from gridsim.studies.compare import applicable

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
if not DOCS.is_dir():
    pytest.skip("the documents are not part of this copy", allow_module_level=True)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
page_of = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def prose(page):
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def headings(page):
    """Return the anchors of the headings of a page, as GitHub generates them."""
    actual = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in actual}


@page_of
def test_toml_blocks_are_scenarios_or_sweeps(page, folder):
    for toml in blocks(page, "toml"):
        # a part of a pyproject.toml, or a file of which the code of the page makes use
        if toml.startswith(("[project", "# own.toml")):
            continue
        if toml.startswith("scenario ="):
            default_scenario().save("scenario.toml")
            Path("sweep.toml").write_text(toml)
            sweep = gs.Sweep.from_toml("sweep.toml")
            assert len(sweep.cells) == 2 * 2 * (2 + 1 + 1) * sweep.replicates  # one of three has an axis
            continue
        scenario = gs.Scenario.from_toml(toml)
        assert len(scenario.workload.realize(scenario.platform))
        assert gs.Scenario.from_toml(scenario.to_toml()) == scenario


@page_of
def test_links_and_images_exist(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        assert file.is_file(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in headings(file), f"{page.name} links to {target}"


@page_of
def test_settings_of_known_schedulers_are_valid(page):
    text = page.read_text()
    variants = dict(re.findall(r"(?<![\w.=])([a-z]+)=([a-z][\w-]+)(?=[,\s`\"])", text))
    for setting in re.findall(r"--set ([^\s'`]+|'[^']+')", text):
        name, parameter, value = parse_setting(setting.strip("'"))
        if ":" not in name and name.islower():  # neither module:Class nor NAME.PARAM=VALUE
            make_scheduler(variants.get(name, name), {parameter: value})


# -- schedulers.md, cohorts.md ------------------------------------------------------------------------------


def test_compiled_node_programs_of_the_guide_have_equal_digests(folder):
    pytest.importorskip("numba", reason="needs the extra jit")
    scenario = gs.Scenario(
        gs.Platform.desktop_grid(20, seed=1),
        gs.Workload.bags(applications=5, interarrival=60.0, seed=2),
        faults=gs.Faults.poisson(1200.0, seed=1),
        seed=3,
    )
    code = blocks(DOCS / "guides/schedulers.md", "python")
    saved = {actual[1]: item for item in code if (actual := re.match(r"# (\w+)\.py\n", item))}
    del saved["gather"]  # it schedules rigid jobs, which compiled nodes do not support
    assert saved.keys() == {"nearby", "choices", "shortest", "stealing", "tree", "groups", "members"}
    for name, source in saved.items():
        (folder / f"{name}.py").write_text(source)
        scheduler = getattr(import_module(name), name.title())()
        interpreted = gs.simulate(scenario, scheduler, nodes="interpreted")
        assert gs.simulate(scenario, scheduler, nodes="compiled").digest == interpreted.digest, name


@pytest.mark.parametrize("interfaces", ["fifo", "equal"])
def test_the_example_scheduler_runs_from_the_shell_with_any_cohort_limit(folder, interfaces):
    code = blocks(DOCS / "guides/cohorts.md", "python")[0]
    (folder / "dealer.py").write_text(code)
    shell = CliRunner()
    common = ["--nodes", "20", "--applications", "5", "--interfaces", interfaces, "--no-progress"]
    flags = ["--set", "dealer:Dealer.k=3", "--out", "mine.gridsim"]
    answer = shell.invoke(cli, ["run", "--scheduler", "dealer:Dealer", *common, *flags])
    assert answer.exit_code == 0, answer.output
    loaded = gs.Result.load("mine.gridsim")
    assert (loaded.applications["nodes_used"] <= 3).all() and loaded.facts == {"k": 3}
    assert 5 < loaded.messages["sent"].sum() <= 15

    module = sys.modules["dealer"]
    for cohort_limit in (None, 1, 2):
        copy = gs.simulate(loaded.scenario, module.Dealer(k=3), cohort_limit=cohort_limit)
        assert copy.digest == loaded.digest
    answer = shell.invoke(cli, ["compare", "--schedulers", "dealer:Dealer,mincent", *common])
    assert answer.exit_code == 0 and "\ndealer " in answer.output
    answer = shell.invoke(
        cli,
        ["run", "--scheduler", "dealer:Dealer", *common, *flags[:1]] + ["dealer:Dealer.k=0"],
    )
    assert answer.exit_code == 2 and "dealer.k" in answer.output


# -- outputs.md ---------------------------------------------------------------------------------------------

SMALL = gs.Scenario(
    gs.Platform.desktop_grid(20, seed=1),
    gs.Workload.bags(applications=5, task_size=65536.0, seed=2),
    gs.Network(record_use=True, task_data=512e3),
    seed=3,
)


RIGID = gs.Scenario(
    gs.Platform.equal(30, attributes=gs.DrawnAttributes(memory=(1e9, 2e9), kinds=("a", "b"), side=1.0)),
    gs.Workload.jobs(20, utilization=0.8, max_nodes=9, seed=2, constraints=gs.Constraints(memory=(0.0,))),
    seed=3,
)
ALL_SCHEDULERS = applicable(SMALL)[0] | applicable(RIGID)[0]


def test_the_tests_cover_every_registered_scheduler():
    assert {type(scheduler) for scheduler in ALL_SCHEDULERS.values()} == {
        kind for kind, _ in registered().values()
    }


@pytest.mark.parametrize("name", ALL_SCHEDULERS)
def test_every_column_and_fact_of_every_scheduler_is_declared(name):
    scheduler = ALL_SCHEDULERS[name]
    scenario = RIGID if scheduler in applicable(RIGID, [name])[0].values() else SMALL
    result = gs.simulate(scenario, scheduler, record=("schedule", "messages", "decisions"))
    for table_name, columns in result.tables.items():
        for column, values in columns.items():
            kind = TABLES[table_name][column].kind
            assert {"float": "f", "int": "i", "text": "U"}[kind] == values.dtype.kind, (
                f"{table_name}.{column}"
            )
    assert set(result.facts) <= set(FACTS)
    assert set(result.provenance) <= set(PROVENANCE)


def test_every_declared_table_is_described():
    assert set(TABLE_TEXTS) == set(TABLES)


# -- tables that are made from what the library declares -----------------------------------------------------


@pytest.fixture(scope="module")
def site_tables():
    """Return the module docs/tables.py."""
    spec = spec_from_file_location("site_tables", DOCS / "tables.py")
    module = module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)
        spec.loader.exec_module(module)
    return module


@page_of
def test_comments_of_a_page_ask_for_known_tables(page, site_tables):
    words = {word for word, _ in site_tables.MARK.findall(page.read_text())}
    assert words <= {*site_tables.TABLES, "pages", "measured"}


def test_reference_pages_have_every_table_and_kind(site_tables):
    marks = {
        name: site_tables.MARK.findall((DOCS / f"reference/{name}.md").read_text())
        for name in ("outputs", "scenario")
    }
    assert {title for word, title in marks["outputs"] if word == "columns"} == set(TABLES)
    declared = {f"{table} {kind}".strip() for table, kinds in scenario_tables().items() for kind in kinds}
    shared = {table for table in scenario_tables() if any(row["kind"] == "all" for row in key_rows(table))}
    assert {title for word, title in marks["scenario"] if word == "keys"} == declared | shared


def test_tables_and_lists_of_schedulers_are_up_to_date(site_tables):
    stale = [path.name for path, text in site_tables.generated() if text != path.read_text()]
    assert stale == [], "python docs/tables.py updates them"


def test_every_default_is_measured_or_has_a_reason(site_tables):
    entries = site_tables.entries()
    text = (DOCS / "background/defaults.md").read_text()
    pages = {title for word, title in site_tables.MARK.findall(text) if word == "defaults"}
    known = {cls.name for cls, _ in registered().values() if msgspec.structs.fields(cls)}
    assert pages == known and set(entries) == {"common", *known}
    for name in sorted(known):
        defaults, varied = site_tables.choices(name), site_tables.varied(name)
        reasons = set(entries[name].get("reasons", ()))
        assert varied | reasons <= set(defaults) and not varied & reasons, name
        for parameter in set(defaults) - varied:
            assert site_tables.reason(name, parameter), f"{name}.{parameter}"
        for row in site_tables.measurements().get(name, ()):
            parameters = re.findall(r"`(\w+)`", row["parameter"].partition(" with ")[0])
            values = (defaults[parameter] for parameter in parameters)
            texts = (f"{value:g}" if isinstance(value, float) else str(value) for value in values)
            assert row["default"] == ", ".join(texts), f"{name}: {row['parameter']}"


# -- speed.md ------------------------------------------------------------------------------------------------
