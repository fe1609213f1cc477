"""Where measurements are kept: `open_store` and what it promises (`contract`)."""

from sweeps.store.contract import Appended as Appended
from sweeps.store.contract import Damaged as Damaged
from sweeps.store.contract import Held as Held
from sweeps.store.contract import MeasurementStore as MeasurementStore
from sweeps.store.contract import Stored as Stored
from sweeps.store.contract import Summary as Summary
from sweeps.store.sql_store import DATABASE_VARIABLE as DATABASE_VARIABLE
from sweeps.store.sql_store import SqlStore as SqlStore
from sweeps.store.sql_store import default_database_url as default_database_url
from sweeps.store.sql_store import open_store as open_store
