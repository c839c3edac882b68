"""Pure decisions: numpy only, no I/O, no clock of its own."""
