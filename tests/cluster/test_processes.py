"""How programs are started."""

from pathlib import Path

from tests.cluster.processes import Processes


def test_a_program_works_where_no_token_lies(tmp_path):
    (tmp_path / "tokens.csv").touch()
    processes = Processes(tmp_path)
    first = processes.start("pwd", Path("/bin/pwd"), [])
    first.process.wait()
    again = processes.start_again(first)
    again.process.wait()
    processes.stop_all()
    for daemon in (first, again):
        home = Path(daemon.log.read_text().strip())
        assert tmp_path in home.parents
        assert list(home.iterdir()) == []
