"""The test bed: an account of moto with a fake clock, guests that end by themselves, and faults."""

import random
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.exceptions import ReadTimeoutError
from moto.core.utils import method_names_from_class
from moto.ec2.models import ec2_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.test import EnvironBuilder

from advisor.infra.aws.asking import Aws
from advisor.infra.aws.guest.software import packed_software
from tests.infra.aws.ec2_ways import ACCOUNT, Ec2Ways
from tests.infra.aws.faults import Crashed, FaultyAws, Lost
from tests.infra.aws.lifecycles import Endings, FakeClock
from tests.infra.aws.wire import Environ, call
from tests.infra.live.conftest import without_real_aws

REGIONS = ("us-east-1", "us-east-2")
_ANY = DomainDispatcherApplication(create_backend_app)
_EC2 = create_backend_app("ec2")
# What botocore and moto know of their own takes a second to load: it is loaded once.
_SESSION = boto3.session.Session("testing", "testing")
_IMAGE: list[str] = []
# Making a client takes longer than a hundred requests, and packing a second: once for all beds.
_CLIENTS: dict[tuple[str, str], Any] = {}
_PACKED = cache(packed_software)


class Bed:
    """One account. `aws()` is AWS as a controller sees it; a crashed one asks no more."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.ways = Ec2Ways(self.clock, image=_an_image())
        self.faulty = FaultyAws(_moto, self.ways, self.clock)
        self.endings = Endings(self.clock)
        self._is_dead = False

    def aws(self, seed: int = 0) -> Aws:
        """A new controller's view, once the one before is gone."""
        self._is_dead = False
        return Aws(self._client, self.clock, random.Random(seed))

    def instances(self, state: str = "") -> list[Any]:
        """moto's own records, in all regions; of one state, where it is named."""
        return [
            instance
            for region in REGIONS
            for reservation in ec2_backends[ACCOUNT][region].reservations.values()
            for instance in reservation.instances
            if state in ("", instance.state)
        ]

    def volumes(self) -> list[Any]:
        return [volume for region in REGIONS for volume in ec2_backends[ACCOUNT][region].volumes.values()]

    def own_groups(self) -> list[Any]:
        return [
            group
            for region in REGIONS
            for groups in ec2_backends[ACCOUNT][region].groups.values()
            for group in groups.values()
            if group.name != "default"
        ]

    def billed(self) -> list[str]:
        """What costs money now, or launches what does."""
        result = [instance.id for instance in self.instances() if instance.state in ("pending", "running")]
        result += [entry.id for entry in self.ways.spots.open() if entry.is_persistent]
        return result + [volume.id for volume in self.volumes()]

    def left(self) -> list[str]:
        """All that costs money or could: instances, volumes, own groups, keys, interfaces, spot requests."""
        result = [instance.id for instance in self.instances() if instance.state != "terminated"]
        result += [volume.id for volume in (*self.volumes(), *self.own_groups())]
        result += [entry.id for entry in self.ways.spots.open()]
        for region in REGIONS:
            backend = ec2_backends[ACCOUNT][region]
            result += [*backend.key_pairs, *backend.enis, *backend.launch_templates]
        return result

    def end(self, instance_id: str, reason: str) -> None:
        (entry,) = [instance for instance in self.instances() if instance.id == instance_id]
        end(entry, reason)

    def forget(self) -> None:
        """An account without a past; moto's own `reset` takes half a second."""
        for region in REGIONS:
            backend = ec2_backends[ACCOUNT][region]
            for made in ("reservations", "tags", "volumes", "enis", "key_pairs", "launch_templates"):
                getattr(backend, made).clear()
            for groups in backend.groups.values():
                for name in [group.id for group in groups.values() if group.name != "default"]:
                    del groups[name]
        s3_backends[ACCOUNT]["aws"].reset()
        self.ways.forget()
        self.clock.forget()
        self.faulty.asked.clear()

    def power_off_at(self, instance: Any, moment: datetime, reason: str) -> None:
        def off() -> None:
            if instance.state == "running":
                end(instance, reason)

        self.clock.at(moment, off)

    def _client(self, service: str, region: str) -> Any:
        """One for all controllers, which this bed answers from now on."""
        client = _CLIENTS.get((service, region))
        if client is None:
            # A request's host is lost on its way to moto, so that the path has to name the bucket;
            # and so is a body that comes in chunks.
            sums, path = {"request_checksum_calculation": "when_required"}, {"addressing_style": "path"}
            config = Config(retries={"total_max_attempts": 1}, s3=path, **sums)
            client = _CLIENTS[service, region] = _SESSION.client(service, region_name=region, config=config)
        events = client.meta.events
        events.unregister("before-send", unique_id="bed")
        events.register_first("before-send", self._transport, unique_id="bed")
        return client

    def _transport(self, request: Any, **_: Any) -> AWSResponse:
        if self._is_dead:
            raise Crashed
        try:
            return self._sent(request)
        except Lost:
            raise ReadTimeoutError(endpoint_url=request.url) from None
        except Crashed:
            self._is_dead = True
            raise

    def _sent(self, request: Any) -> AWSResponse:
        headers = {key: _text(value) for key, value in request.headers.items()}
        sent = EnvironBuilder(request.url, method=request.method, data=request.body or b"", headers=headers)
        environ = sent.get_environ()
        answer = call(self.faulty, environ, environ["wsgi.input"].read())
        return AWSResponse(request.url, answer.status, answer.headers, _Raw(answer.body))


def worn(thing: Any) -> dict[str, str]:
    return {tag["key"]: tag["value"] for tag in thing.get_tags()}


def end(instance: Any, reason: str) -> None:
    """As EC2 ends an instance that was not told to by its API; one that powers itself off only
    stops, where its launch asked for no more."""
    ends = instance.instance_initiated_shutdown_behavior == "terminate"
    if reason == "Client.InstanceInitiatedShutdown" and not ends:
        instance.stop()
        return
    instance.terminate()
    instance.state_reason.code = instance.state_reason.message = reason


def launched_at(instance: Any) -> datetime:
    moment: datetime = instance.launch_time.replace(tzinfo=UTC)
    return moment


@contextmanager
def prepared(patch: pytest.MonkeyPatch) -> Iterator[Bed]:
    """A bed whose clock is moto's, too."""
    bed = Bed()
    patch.setattr("moto.ec2.models.instances.utcnow", bed.clock.naive)
    patch.setattr("advisor.infra.aws.asking.Deadline", AtOnce)
    patch.setattr("advisor.runs.cloud.sweep.packed_software", _PACKED)
    patch.setattr("moto.core.responses.method_names_from_class", cache(method_names_from_class))
    bed.endings.install(patch)
    bed.forget()
    try:
        yield bed
    finally:
        bed.forget()


@contextmanager
def account_here(patch: pytest.MonkeyPatch, folder: Path) -> Iterator[Bed]:
    """An account with a bucket, on loopback; its clock is that of commands in this process."""
    without_real_aws(patch, folder)
    with prepared(patch) as bed, serving(bed) as url:
        patch.setenv("AWS_ENDPOINT_URL", url)
        patch.setenv("ADVISOR_BUCKET", "results")
        patch.setattr("advisor.infra.aws.asking.Clock", lambda: bed.clock)
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="results")
        bed.faulty.asked.clear()
        yield bed


def _moto(environ: Environ, start: Callable[..., Any]) -> Iterable[bytes]:
    """moto's server; of EC2 without looking through all of AWS for whose request it is."""
    is_ec2 = "/ec2/aws4_request" in environ.get("HTTP_AUTHORIZATION", "")
    answer: Iterable[bytes] = (_EC2 if is_ec2 else _ANY)(environ, start)
    return answer


class AtOnce:
    """In place of a thread for each question: the bed's clock lets nobody wait."""

    def __init__(self, _seconds: float) -> None:
        """Any time will do."""

    def within(self, _what: str, ask: Callable[[], Any]) -> Any:
        return ask()


class _Raw(BytesIO):
    def stream(self, **_: Any) -> Iterator[bytes]:
        while part := self.read(65536):
            yield part


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _an_image() -> str:
    if not _IMAGE:
        images = ec2_backends[ACCOUNT]["us-east-1"].describe_images()
        _IMAGE.append(next(image.id for image in images if "ubuntu" in image.name))
    return _IMAGE[0]


# The bed's AWS behind a socket on loopback, for whole commands.


@contextmanager
def serving(bed: Bed) -> Iterator[str]:
    """The URL for `AWS_ENDPOINT_URL`, as long as the block runs."""

    def app(environ: Environ, start: Callable[..., Any]) -> Iterable[bytes]:
        try:
            return bed.faulty(environ, start)
        except Lost:
            with suppress(OSError):
                environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            start("200 OK", [])
            return []

    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Silent)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Silent(WSGIRequestHandler):
    def log(self, *_: Any) -> None:
        """Nothing."""
