"""Tables, sentences and pages name the cloud of every spec where a question covers several."""

import pytest
from msgspec.structs import replace

from advisor.render.document import recommendation_document
from advisor.render.document_names import covers_clouds
from advisor.render.i18n.catalogue import report_texts
from advisor.render.language_document import generation_document
from advisor.render.sentences import alternative_columns, borderline_sentence, headline, rejected_columns
from advisor.render.tables import recommendation_markdown
from tests.advisor.render.language_answers import SOURCES, generation_recommendation
from tests.builders import close_call, recommendation

TEXTS = report_texts("en")


def document(cloud):
    answer = recommendation(close_calls=(close_call(),))
    return recommendation_document(replace(answer, request=replace(answer.request, cloud=cloud)), SOURCES)


CLOUDS = pytest.mark.parametrize(("cloud", "is_named"), [("any", True), ("aws", False)])


@CLOUDS
def test_reports_and_the_page_name_it(cloud, is_named):
    answer_document = document(cloud)
    clouds = covers_clouds(answer_document)
    others = alternative_columns(answer_document["alternatives"], TEXTS, "us-east-1", clouds=clouds)
    texts = [
        others[0].text(answer_document["alternatives"][0]),
        rejected_columns(TEXTS, clouds=clouds)[0].text(answer_document["rejected"][0]),
        borderline_sentence(answer_document["close_calls"][0], 500.0, TEXTS, clouds=clouds),
        recommendation_markdown(answer_document).splitlines()[4],
    ]
    assert [("aws" in text) for text in texts] == [is_named] * len(texts)


@CLOUDS
def test_pages_and_tables_about_language_models_name_it(cloud, is_named):
    answer = generation_recommendation()
    answer_document = generation_document(
        replace(answer, request=replace(answer.request, cloud=cloud)), SOURCES
    )
    assert ("aws us-east-1" in headline(answer_document, TEXTS)) is is_named
    assert ("| aws |" in recommendation_markdown(answer_document)) is is_named
