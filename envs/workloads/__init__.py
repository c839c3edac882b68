"""Where pods and load come from: generators, importers for public trace formats, recordings of a real cluster.

Every importer reads one published format into small frozen dataclasses of numpy arrays with units in their
names, and refuses what it cannot read by file, line and column. The trace files themselves are never part of
the project: their folder is named by the user, and everything works without one.
"""
