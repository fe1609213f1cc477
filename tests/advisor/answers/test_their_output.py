"""What a user's own code prints goes to stderr."""

import os
import subprocess
import sys

from advisor.answers.own_networks import their_output_aside


def test_what_is_printed_inside_goes_to_stderr_and_a_fault_gives_stdout_back(capfd):
    sys.stdout.write("before\n")
    with their_output_aside():
        sys.stdout.write("python\n")
        os.write(1, b"c\n")
        subprocess.run([sys.executable, "-S", "-c", "print('child')"], check=True)
    sys.stdout.write("after\n")
    said = capfd.readouterr()
    assert said.out.split() == ["before", "after"]
    assert sorted(said.err.split()) == ["c", "child", "python"]
    try:
        with their_output_aside():
            raise SystemExit(3)
    except SystemExit:
        sys.stdout.write("back\n")
    assert capfd.readouterr().out == "back\n"
