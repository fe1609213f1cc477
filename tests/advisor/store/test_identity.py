"""Which database a URL means, however it is written."""

from contextlib import closing

import sqlalchemy

from advisor.store.measurements import SqlStore


def identity_of(url):
    with closing(SqlStore(url, reading=True, patience_seconds=5.0)) as store:
        return store.identity


def test_a_file_is_the_same_by_every_path_to_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    urls = ("sqlite:///m.sqlite", "sqlite:///link/m.sqlite", f"sqlite:///{tmp_path}/m.sqlite")
    assert len(set(map(identity_of, urls))) == 1
    assert identity_of("sqlite:///other.sqlite") != identity_of(urls[0])


def test_a_server_is_the_same_by_every_name_of_it_and_for_every_user(postgresql):
    url = postgresql.new_database()
    parsed = sqlalchemy.make_url(url)
    user = postgresql.new_user("")
    schema = parsed.query["options"].partition("=")[2]
    postgresql.execute(f"GRANT USAGE ON SCHEMA {schema} TO {user}")
    spelled = (parsed.set(host="localhost"), parsed.set(username=user))
    urls = (url, postgresql.near_url(url), *(one.render_as_string(False) for one in spelled))
    assert len(set(map(identity_of, urls))) == 1
    assert identity_of(postgresql.new_database()) != identity_of(url)
