"""Tables as frames of pandas, pyarrow and xarray; needs the extra ``data``."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gridsim as gs
from gridsim.results.table import Table

TABLE = Table(
    {
        "x": [1.5, math.nan, -0.0],
        "n": np.array([3, -1, 2], np.int32),
        "yes": [True, False, True],
        "kind": ["a", "", "bbb"],
    }
)


def address(column):
    return column.__array_interface__["data"][0]


def test_a_pandas_frame_is_a_copy_of_the_table():
    frame = TABLE.to_pandas()
    assert list(frame) == list(TABLE) and frame["kind"].tolist() == ["a", "", "bbb"]
    for name in ("x", "n", "yes"):
        assert frame[name].dtype == TABLE[name].dtype
        assert np.array_equal(frame[name].to_numpy(), TABLE[name], equal_nan=name == "x")
    frame.loc[0, "x"] = 7.0
    assert frame["x"][0] == 7.0 and TABLE["x"][0] == 1.5


def test_an_arrow_table_shares_the_memory_of_numbers():
    frame = TABLE.to_arrow()
    assert frame.column_names == list(TABLE)
    assert str(frame.schema.field("n").type) == "int32" and str(frame.schema.field("kind").type) == "string"
    assert frame["kind"].to_pylist() == ["a", "", "bbb"] and frame["yes"].to_pylist() == [True, False, True]
    for name in ("x", "n"):
        (chunk,) = frame[name].chunks
        assert chunk.buffers()[1].address == address(TABLE[name])
    assert frame["x"].to_pylist() == [None if np.isnan(x) else x for x in TABLE["x"]]


def test_libraries_of_tables_take_a_table_as_it_is():
    import pandas as pd
    import pyarrow as pa

    expected = TABLE.to_arrow()
    assert str(pa.table(TABLE)) == str(expected) and pa.table(TABLE[:0]).schema.equals(expected.schema)
    if hasattr(pd.DataFrame, "from_arrow"):
        assert pd.DataFrame.from_arrow(TABLE).equals(TABLE.to_pandas())
    with pytest.raises(TypeError, match=r"^a Table is not an array: .*table\.to_pandas\(\)"):
        pd.DataFrame(TABLE)


def test_polars_takes_a_table_and_a_study():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(TABLE)
    assert frame.columns == list(TABLE) and frame["kind"].to_list() == ["a", "", "bbb"]
    scenario = gs.Scenario(gs.Platform.desktop_grid(4, 1), gs.Workload.bags(3, 10.0, seed=2))
    study = gs.compare(scenario, ["fcfs", "mincent"])
    assert polars.DataFrame(study)["scheduler"].to_list() == ["fcfs", "mincent"]


def test_duckdb_queries_a_table_by_the_name_of_its_variable():
    duckdb = pytest.importorskip("duckdb")
    jobs = TABLE
    assert jobs is TABLE and duckdb.sql("select sum(n) from jobs").fetchall() == [(4,)]


def test_an_xarray_dataset_shares_the_memory_of_columns():
    frame = TABLE.to_xarray("job")
    assert list(frame.data_vars) == list(TABLE) and dict(frame.sizes) == {"job": 3}
    assert frame["job"].values.tolist() == [0, 1, 2]
    assert all(address(frame[name].values) == address(TABLE[name]) for name in TABLE)
    changed = frame.copy(deep=True)
    changed["n"][0] = 9
    assert changed["n"][0] == 9 and TABLE["n"][0] == 3
    with pytest.raises(ValueError, match="^dimension"):
        TABLE.to_xarray("kind")


def test_empty_tables_become_empty_frames():
    for table in (Table({}), Table({"x": np.zeros(0), "kind": np.zeros(0, np.str_)})):
        assert len(table.to_pandas()) == len(table.to_arrow()) == table.to_xarray().sizes["row"] == 0
        assert list(table.to_pandas()) == table.to_arrow().column_names == list(table.to_xarray().data_vars)


def test_a_result_is_a_tree_of_its_tables():
    scenario = gs.Scenario(gs.Platform.desktop_grid(4, 1), gs.Workload.bags(3, 10.0, seed=2))
    result = gs.simulate(scenario, gs.WqrFt(), record=True)
    tree = result.to_xarray()
    assert set(tree.children) == set(result.tables) and tree.attrs["digest"] == result.digest
    for name, table in result.tables.items():
        assert all(np.array_equal(tree[name][key].values, column) for key, column in table.items())
    assert tree["applications"].sizes == tree["cycles"].sizes == {"application": 3}
    assert tree["machines"].sizes == {"machine": 4} and set(tree["schedule"].sizes) == {"row"}
    assert float(tree["applications"]["stretch"].max()) == result.max_stretch
    assert tree["applications"]["stretch"].attrs == {"units": "s/Mflop"}
    assert tree["applications"]["tasks"].attrs == {} and tree["schedule"]["begin"].attrs == {"units": "Mflop"}
