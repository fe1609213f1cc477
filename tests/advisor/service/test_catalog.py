"""The catalogue over HTTP: pages without a gap, and nothing sent twice that has not changed."""

import re

import pytest

from advisor.answers.listing import page_of, query_of
from advisor.questions.listings import Offers
from advisor.questions.reading import from_values

NEXT = re.compile(r'<([^>]*)>; rel="next"')


def test_the_pages_are_the_whole_list_without_a_gap(service, context):
    path, offers = "/v1/catalog?cloud=any&gpu=L4&market=spot&limit=37", []
    while path:
        answer = service.get(path)
        assert answer.status_code == 200, answer.text
        offers += answer.json()["offers"]
        result = NEXT.search(answer.headers["link"])
        path = result[1] if result else None
    query = query_of(from_values(Offers, {"cloud": "any", "gpu": "L4", "market": "spot"}))
    assert offers == page_of(context.catalog, query).document(context.catalog)["offers"]
    assert len(offers) == int(answer.headers["x-total-count"]) > 37


def test_a_page_leads_back_too(service):
    first = service.get("/v1/catalog?gpu=T4&limit=2")
    assert "prev" not in first.headers["link"]
    second = service.get(NEXT.search(first.headers["link"])[1])
    back = re.search(r'<([^>]*)>; rel="prev"', second.headers["link"])[1]
    assert service.get(back).json() == first.json()


@pytest.mark.parametrize("cursor", ["abc", "AAAA", "x:1", "%F0%9F%98%80", "MTox" * 60])
def test_a_cursor_that_nobody_gave_is_refused(refused, cursor):
    assert refused(422, f"/v1/catalog?cursor={cursor}")["field"] == "cursor"


def test_a_cursor_of_another_question_is_refused(service, refused):
    path = NEXT.search(service.get("/v1/catalog?gpu=T4&limit=2").headers["link"])[1]
    assert "another question" in refused(422, f"{path}&market=spot")["detail"]


@pytest.mark.parametrize(
    "path", ["/v1/catalog?gpu=T4", "/v1/catalog/g5.xlarge", "/v1/networks", "/v1/gpus", "/openapi.json"]
)
def test_what_has_not_changed_is_not_sent_again(service, path):
    answer = service.get(path)
    etag = answer.headers["etag"]
    assert re.fullmatch(r'"[0-9a-f]{32}"', etag), "a strong one"
    assert "max-age" in answer.headers["cache-control"]
    for text in (etag, f'"other", W/{etag}', "*"):
        again = service.get(path, headers={"If-None-Match": text})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == etag
    assert service.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


def test_another_question_has_another_etag(service):
    etags = {
        service.get(f"/v1/catalog?gpu=T4{more}").headers["etag"]
        for more in ("", "&limit=3", "&market=spot", "&instance=g4dn.xlarge")
    }
    assert len(etags) == 4
