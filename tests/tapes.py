"""Tapes compared, column by column."""

from dataclasses import fields

from envs.workloads.tape import Tape


def different(one: Tape, other: Tape) -> set[str]:
    """Names of the columns that are not the same bit by bit."""
    return {c.name for c in fields(Tape) if getattr(one, c.name).tobytes() != getattr(other, c.name).tobytes()}
