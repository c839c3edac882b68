"""How a cluster behaves: one small function a rule, and the readable world that composes them.

The rules are plain Python over numbers in the subset that numba compiles. ``World`` calls them as they are;
``envs.batch_env`` calls ``numba.njit`` of the same functions: there is one source for each rule.
"""
