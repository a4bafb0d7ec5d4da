# %% [markdown]
# # Which communicators wait for uneven ranks?
#
# The time of each rank on each communicator, beside the rank that spent least there: what the others spent beyond it they mostly waited for it.

# %%
import os

import mpisee

profile = mpisee.load(os.environ.get("PROFILE", "app.mpisee"), backend="pandas")
print(profile)

# %%
calls = profile.calls
by_rank = calls.pivot_table(index="comm", columns="rank", values="time_s", aggfunc="sum")
beyond_least = by_rank.sub(by_rank.min(axis="columns"), axis="index").sum(axis="columns")
table = by_rank.sum(axis="columns").to_frame("time_s").assign(beyond_least_s=beyond_least)
table = table.join(profile.comms.set_index("comm")[["size", "label", "created_by"]])
print(table.sort_values("beyond_least_s", ascending=False).to_string())

# %% [markdown]
# The same as part of the wall time of all ranks: columns have units (`profile.units("ranks")`), and both are seconds.

# %%
wall_s = profile.ranks["wall_s"].sum()
lost = table["beyond_least_s"] / wall_s
print((100 * lost).round(1).rename("% of run").to_string())
