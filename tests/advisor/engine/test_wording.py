"""What is said where nothing even runs, and which warnings matter."""

from datetime import date

from msgspec.structs import replace

from advisor.catalog.support import UNLIMITED_NOTE
from advisor.engine.assumptions import warnings
from advisor.engine.no_offer import no_offer
from tests.builders import candidate, recommendation, rejected


def test_a_missing_disk_price_can_be_imported():
    reasons = (rejected(reason="too_slow"), rejected("gn5", reason="no_disk"))
    said = str(no_offer(recommendation(ranked=(), rejected=reasons)))
    assert "none of the 2 types" in said
    assert "1 without a fitting disk, 1 too slow" in said
    assert "advisor catalog import" in said


def test_where_no_fact_is_known_another_cloud_may_answer():
    answer = recommendation(ranked=(), rejected=(rejected(reason="facts_missing"),))
    said = str(no_offer(answer))
    assert "--explain-rejected says why; --cloud any looks elsewhere" in said


def test_constraints_that_leave_no_type_are_not_counted_as_rejections():
    said = str(no_offer(recommendation(ranked=(), rejected=())))
    assert said.startswith("no type of aws ")


def test_a_local_disk_does_not_care_for_limits_to_network_disks():
    network = candidate(notes=(UNLIMITED_NOTE,))
    disk = replace(network.spec.disk, price=None)
    local = replace(network, spec=replace(network.spec, disk=disk))
    assert UNLIMITED_NOTE in warnings(network, date(2026, 7, 20))
    assert UNLIMITED_NOTE not in warnings(local, date(2026, 7, 20))
