# %% [markdown]
# # 23 · State spaces
