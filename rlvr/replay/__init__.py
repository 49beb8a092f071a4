"""Replay: stores of rows, init / add / sample over a rollout's pytree."""

from rlvr.replay import stores

Replay = stores.Replay
Store = stores.Store
no_store = stores.no_store
recent_groups = stores.recent_groups
fifo_rows = stores.fifo_rows

REPLAY = stores.REPLAY
