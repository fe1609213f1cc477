"""A user's files lie where the platform wants them."""

import sys

import platformdirs
import pytest

from advisor.files import APPLICATION, user_folder


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere platformdirs itself is asked")
@pytest.mark.parametrize("home", ["/home/somebody", "/home/a b/"])
@pytest.mark.parametrize("data_home", [None, "", "/srv/data", "/srv/data/"])
def test_the_data_folder_is_the_one_of_platformdirs(monkeypatch, home, data_home):
    monkeypatch.setenv("HOME", home)
    if data_home is None:
        monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_DATA_HOME", data_home)
    assert user_folder() == platformdirs.user_data_path(APPLICATION)
