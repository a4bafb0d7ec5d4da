# %% [markdown]
# # Several runs with Thicket
#
# `mpisee-through export app.mpisee --hatchet app.json` writes a tree of regions, communicators and operations, which Hatchet and Thicket read as Caliper's JSON.

# %%
import os

import hatchet
import thicket

files = os.environ.get("FILES", "app.json").split(":")

# %% [markdown]
# One run in Hatchet: the hottest operations of rank 0.

# %%
frame = hatchet.GraphFrame.from_caliper(files[0])
rank_0 = frame.dataframe.xs(0, level="rank")
print(rank_0.sort_values("time", ascending=False)[["name", "time", "time (inc)", "calls", "bytes"]].head())

# %% [markdown]
# Several runs in a thicket: a row for each node, run and rank, and what is known of the runs.

# %%
runs = thicket.Thicket.from_caliper(files, disable_tqdm=True)
print(runs.metadata[["program", "ranks", "mpi"]])
calls = runs.dataframe.reset_index()
calls = calls[calls["name"].str.startswith("MPI_")]
print(calls.groupby(["profile", "name"])["time"].sum().unstack("profile"))
