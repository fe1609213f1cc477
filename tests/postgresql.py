"""A real PostgreSQL by the wheel `pgserver`, whose own package would add a user to the machine."""

import importlib.util
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest
import sqlalchemy

PASSWORD = "right"
# For fixtures that give each test both kinds of database.
DATABASES = ("sqlite", pytest.param("postgresql", marks=pytest.mark.postgres))
_NOBODY = 65534  # PostgreSQL refuses to run as root


class PostgreSQL:
    """A server with a place for each test; it can be stopped, killed and started again.

    `inside` names a network namespace whose `address` it answers at; this process reaches it by its socket
    then (`near_url`)."""

    def __init__(self, inside="", address="127.0.0.1"):
        self._inside, self._address = inside, address
        found = importlib.util.find_spec("pgserver")
        if found is None:
            pytest.skip("needs pgserver (extra dev)")
        self._folder = Path(tempfile.mkdtemp(prefix="advisor-postgresql-"))
        self._data = self._folder / "data"
        self._programs = Path(found.origin).parent / "pginstall" / "bin"
        self._user = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if _is_root() else {}
        self._before = []
        if inside:  # only root may enter it
            self._user, ids = {}, (f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups")
            self._before = ["ip", "netns", "exec", inside, "setpriv", *ids]
        self.port = _free_port()
        try:
            self._make()
        except (OSError, subprocess.SubprocessError) as error:
            self.remove()
            pytest.skip(f"no PostgreSQL here: {error} {getattr(error, 'stderr', '')}")

    def _make(self):
        if _is_root():
            os.chown(self._folder, _NOBODY, _NOBODY)
            if not self._may_run():
                copied = self._folder / "pginstall"
                shutil.copytree(self._programs.parent, copied)
                self._programs = copied / "bin"
        password = self._folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        how = ["-U", "advisor", "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync"]
        self._run("initdb", "-D", self._data, "--pwfile", password, *how)
        with (self._data / "pg_hba.conf").open("a") as file:
            file.write("host all all samenet scram-sha-256\n")
        self.start()

    def _may_run(self):
        try:
            self._run("postgres", "--version")
        except (OSError, subprocess.SubprocessError):
            return False
        return True

    def _run(self, program, *arguments):
        return subprocess.run(
            [*self._before, str(self._programs / program), *map(str, arguments)],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
            cwd=self._folder,
            **self._user,
        )

    def start(self):
        # No test pulls the plug: what the kernel has, is safe from all that happens here.
        listen = f"-p {self.port} -k {self._folder} -c listen_addresses={self._address}"
        options = f"{listen} -c fsync=off"
        log = self._folder / "log"
        for left in reversed(range(20)):
            try:
                self._run("pg_ctl", "-D", self._data, "-w", "-l", log, "-o", options, "start")
                return
            except subprocess.CalledProcessError:  # children of a killed one still end
                if not left:
                    raise
                time.sleep(0.5)

    def stop(self, mode="fast"):
        """As an administrator would in a hurry: connections are ended."""
        self._run("pg_ctl", "-D", self._data, "-w", "-m", mode, "stop")

    def kill(self):
        """kill -9 of the server; its children end with it."""
        pid = int((self._data / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        while _answers(self.port):
            time.sleep(0.05)

    def remove(self):
        if self._inside or _answers(self.port):
            with suppress(subprocess.CalledProcessError):
                self.stop("immediate")
        shutil.rmtree(self._folder, ignore_errors=True)

    def url(self, database="postgres", user="advisor", password=PASSWORD, schema="public"):
        place = f"{self._address}:{self.port}/{database}?options=-csearch_path%3D{schema}"
        return f"postgresql://{user}:{password}@{place}"

    def near_url(self, url):
        """The same place by the server's socket, which no network parts from us."""
        near = sqlalchemy.make_url(url)._replace(host=None, port=None)
        near = near.update_query_dict({"host": str(self._folder), "port": str(self.port)})
        return near.render_as_string(hide_password=False)

    def new_database(self, **changes):
        """The URL of an empty place: a schema, which is quicker made than a database."""
        schema = f"test_{secrets.token_hex(6)}"
        self.execute(f"CREATE SCHEMA {schema}")
        return self.url(schema=schema, **changes)

    def new_user(self, rights, *settings):
        """The name of a user with these rights."""
        name = f"user_{secrets.token_hex(6)}"
        self.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}' {rights}")
        for setting in settings:
            self.execute(f"ALTER ROLE {name} SET {setting}")
        return name

    def execute(self, statement, url=None):
        url = url or self.url()
        near = sqlalchemy.make_url(self.near_url(url) if self._inside else url)
        url = near.set(drivername="postgresql+psycopg")
        engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)
        engine.dispose()


def _is_root():
    return os.geteuid() == 0


def _free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def _answers(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
