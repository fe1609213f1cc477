"""Where measurements are kept: `open_store` and what it promises (`contract`)."""

from advisor.sweeps.store.contract import Appended as Appended
from advisor.sweeps.store.contract import Damaged as Damaged
from advisor.sweeps.store.contract import Held as Held
from advisor.sweeps.store.contract import MeasurementStore as MeasurementStore
from advisor.sweeps.store.contract import Stored as Stored
from advisor.sweeps.store.contract import Summary as Summary
from advisor.sweeps.store.sql_store import DATABASE_VARIABLE as DATABASE_VARIABLE
from advisor.sweeps.store.sql_store import SqlStore as SqlStore
from advisor.sweeps.store.sql_store import default_database_url as default_database_url
from advisor.sweeps.store.sql_store import open_store as open_store
