"""Random questions about a world."""

from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.domain import ANY, IMAGENET, Market, Precision, Range, Task
from tests.builders import network_question

from .constraints import LIMITS
from .world import world

# 131 GiB, 5 GiB that RAM holds, and 131 GiB of large samples that are read in a row.
DATASETS = (
    IMAGENET,
    replace(IMAGENET, name="small", samples=50_000),
    replace(IMAGENET, name="large", samples=93_000, bytes_per_sample=1_500_000.0),
)


def drawn_request(random, world, networks=("googlenet",)):
    """One question; every limit of the table may be in it."""
    cloud = random.choice([*world.clouds, "aws", "any", "any"])
    regions = [] if cloud == "any" else world.regions[cloud]
    request = network_question(
        network=random.choice(networks),
        task=random.choice([Task.TRAINING, Task.INFERENCE, Task.INFERENCE, Task.PREPROCESSING]),
        precision=random.choice([None, None, *Precision]),
        dataset=random.choice(DATASETS),
        cloud=cloud,
        region=random.choice([*regions, None, None]),
        market=random.choice([*[Market.ON_DEMAND] * 30, Market.SPOT, *Market]),
        max_results=random.choice([1, 3, 10, 500]),
        required_confidence=random.choice([0.9, None]),
    )
    for limit in LIMITS:
        request = replace(request, **limit.draw(random, request, world))
    return request


def tightened(random, request, world):
    """The request with one limit drawn and tightened, and which one it was."""
    limit = random.choice(LIMITS)
    changes = limit.tighten(random, request, world)
    return limit.name, replace(request, **changes) if changes else request


@st.composite
def questions(draw, count):
    """A small world and `count` questions about it, each with one that asks for more."""
    drawn_world = world(draw(st.integers(0, 2**20)))
    random = draw(st.randoms(use_true_random=False))
    requests = [drawn_request(random, drawn_world) for _ in range(count)]
    return (
        drawn_world,
        [(request, *tightened(random, request, drawn_world)) for request in requests],
        random.randint(0, 2**20),
    )


@st.composite
def real_questions(draw, world, networks):
    """A pair of questions about a few GPUs of a catalogue, and about some network."""
    random = draw(st.randoms(use_true_random=False))
    request = drawn_request(random, world, networks)
    request = replace(request, **(_few_gpus if random.random() < 0.6 else _few_cpus)(random))
    return request, *tightened(random, request, world), random.randint(0, 2**20)


def _few_gpus(random):
    cloud, region = random.choice([("aws", "us-east-1"), ("aws", "us-east-1"), ("gcp", None)])
    gpus = (random.choice(("T4", "L4") if cloud == "gcp" else ("T4", "L4", "A10G", "V100")),)
    free = dict.fromkeys(("min_gpu_memory_mib", "max_gpu_memory_mib", "disk"))
    free |= {"compute_capability": ANY, "disk_types": ()}
    return {"cloud": cloud, "region": region, "gpus": gpus, **free}


def _few_cpus(random):
    """CPUs of one size, and what GPUs there are of it."""
    vcpus, gib = random.choice([(4, 8), (8, 16), (16, 64), (48, 96), (64, 256)])
    host = {"vcpus": Range(vcpus, vcpus), "memory_mib": Range(1024 * gib, 1024 * gib)}
    usual = {"cloud": "aws", "region": "us-east-1", "precision": Precision.FP32}
    return {**_few_gpus(random), **usual, **host, "gpus": (), "accelerated_only": False}
