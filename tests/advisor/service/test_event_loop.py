"""No question holds up another request."""

import threading
from concurrent.futures import ThreadPoolExecutor

from advisor.service.routes import answers

ASK = "/v1/recommend"
QUESTION = {"task": "inference", "model": "googlenet", "target_throughput": 500}


def test_a_question_that_waits_for_another_holds_up_nothing_else(service, monkeypatch):
    """Questions of one workload may wait for each other, as for a lock: never on the event loop."""
    assert service.post(ASK, json=QUESTION).status_code == 200
    lock, recommended = threading.Event(), answers.recommended

    def waiting(*arguments, **options):
        assert lock.wait(60)
        return recommended(*arguments, **options)

    monkeypatch.setattr(answers, "recommended", waiting)
    with ThreadPoolExecutor(4) as pool:
        try:
            questions = [
                pool.submit(service.post, ASK, json=QUESTION | more)
                for more in ({}, {"target_throughput": 400}, {"pareto": True, "max_count": 50})
            ]
            alive = pool.submit(service.get, "/healthz").result(timeout=30)
        finally:
            lock.set()
        assert alive.status_code == 200
        assert [one.result(60).status_code for one in questions] == [200, 200, 200]
