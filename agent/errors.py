"""The one tree of errors that Pilotfish raises on purpose.

Callers can tell a mistake of the user, which deserves one clear line, from a defect of ours, which deserves a
traceback::

    PilotfishError
    └── InputError    what the user gave cannot be used: the message names what is wrong and the choices
"""


class PilotfishError(Exception):
    """The base of every error that Pilotfish raises on purpose."""


class InputError(PilotfishError):
    """What the user gave cannot be used; the message names what is wrong and what would be right."""
