"""Train, evaluate, compare: one verb a file, called by the command line. Never imported by ``serving``."""
