# %% [markdown]
# # Questions in SQL
#
# DuckDB reads the tables where they lie, as CSV or as the Parquet files of `mpisee-through export app.mpisee --parquet tables`, also when they are larger than memory.

# %%
import os
from pathlib import Path

import duckdb

profile = Path(os.environ.get("PROFILE", "app.mpisee"))
tables = os.environ.get("TABLES")
source = f"'{tables}/calls.parquet'" if tables else f"'{profile}/calls.csv'"

# %% [markdown]
# Where does the time go? The sum over ranks by communicator and operation.

# %%
busiest = duckdb.sql(
    f"""
    SELECT comm, call, sum(calls) AS calls, sum(bytes) AS bytes, round(sum(time_s), 6) AS time_s
    FROM {source} GROUP BY ALL ORDER BY time_s DESC LIMIT 5
    """
)
print(busiest)

# %% [markdown]
# How uneven is it? The longest of the ranks beside their mean, by communicator.

# %%
uneven = duckdb.sql(
    f"""
    WITH by_rank AS (SELECT comm, rank, sum(time_s) AS time_s FROM {source} GROUP BY ALL)
    SELECT comm, count(*) AS ranks, avg(time_s) AS mean_s, max(time_s) AS most_s, arg_max(rank, time_s) AS most_rank
    FROM by_rank GROUP BY comm ORDER BY sum(time_s) DESC
    """
)
print(uneven)

# %% [markdown]
# Parquet files say what their columns are.

# %%
if tables:
    metadata = duckdb.sql(
        f"""
        SELECT decode(value) FROM parquet_kv_metadata('{tables}/calls.parquet') WHERE decode(key) = 'mpisee.columns'
        """
    ).fetchall()
    print(metadata[0][0][:200])
