"""The probe as a process."""

import signal
import socket
import subprocess
import sys
import urllib.request

from tests.prometheus import free_port, wait_for


def probe(*arguments: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "pilotfish", "probe", *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def test_the_probe_runs_as_a_process_and_leaves_on_a_term():
    port = free_port()
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as listener:
        process = probe(f"127.0.0.1:{listener.getsockname()[1]}", "--port", str(port))

        def answers() -> bool:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2) as reply:
                    return float(reply.read()) > 0.0
            except OSError:
                return False

        wait_for(answers, 40.0)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=5) == 0
        process.stderr.close()


def test_a_target_that_is_none_is_one_line_and_exit_code_2():
    process = probe("users.example")
    _, said = process.communicate(timeout=40)
    assert process.returncode == 2
    assert said.splitlines() == ["pilotfish: 'users.example' is no target: give host:port, such as users.example:443"]
