"""Writes what starts vLLM on a recommended spec: one server per replica, each with GPUs that no other uses.

The flags are vLLM's (docs.vllm.ai, `vllm serve`). On a cluster, a Service spreads requests over the replicas.
Elsewhere each replica listens on a separate port, from 8000 on, and the user spreads the requests."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from advisor.domain.language import MOST_SEQUENCES, GenerationCandidate
from advisor.domain.words import SIXTEEN_BIT, KvPrecision, LlmEngine, LlmPrecision
from advisor.errors import UsageError
from advisor.messages import FieldName, Message, floor_rate
from advisor.models.language.configs import Weights, bundled_language_models
from advisor.questions.language import ServingQuestion
from advisor.questions.reading import question_document
from advisor.render.export import COMPOSE, ON_CLUSTERS, export_start
from advisor.render.export.parts import Start, chance_text, header, is_spot
from advisor.render.i18n.catalogue import report_texts
from advisor.render.language_document import placement_block
from advisor.render.phrases import engine_text, speculation_words
from advisor.render.sentences import question_text
from advisor.render.text import disk_text, lower_name
from advisor.render.views.specs import placement_message

_, KSERVE = ON_CLUSTERS
FORMATS = ("skypilot", "dstack", "terraform", COMPOSE, *ON_CLUSTERS)
FIRST_PORT = 8000
# This loader reads weights in several streams, at the disk's rate; vLLM's default uses one stream.
_LOADER = "runai_streamer"
# The share of GPU memory that the predicted KV cache assumes (docs/internals/language.md).
GPU_MEMORY_SHARE = "0.94"
# Longest request over the mean one. A server refuses longer requests, and a mean says nothing of the longest.
# (In the chats of Azure 2023, the 99th percentile is up to 3.5 times the mean.)
_LONGER = 4
# vLLM's flags for each format; a format without a flag is read from the checkpoint.
_FLAGS = {LlmPrecision.BF16: ("--dtype", "bfloat16"), LlmPrecision.FP16: ("--dtype", "half")}
_IMAGE = "vllm/vllm-openai"
_HUB, _OWN_DISK = "/root/.cache/huggingface", "/opt/dlami/nvme/huggingface"
# Where the user's own model folder is mounted.
_OWN_MODEL, _CONFIG = "/model", "config.json"
# The data disk is the volume that has no filesystem or partition yet.
_MOUNT = (
    f"mkdir -p {_HUB}",
    "for disk in $(lsblk -dpno NAME,MODEL | awk '/Elastic Block Store/ {print $1}'); do",
    '  [ -n "$(lsblk -no FSTYPE,PARTTYPE "$disk" | tr -d "[:space:]")" ] ||',
    f'    {{ mkfs.ext4 -q "$disk" && mount "$disk" {_HUB}; }}',
    "done",
)


def export_serving(
    candidate: GenerationCandidate, request: ServingQuestion, format: str, *, config: Path | None = None
) -> str:
    """Return the file that starts vLLM in a format, ending in a newline. It serves the candidate's checkpoint
    in the recommended precision, or the one in the local folder of `config`. Raises `UsageError` for a format
    that starts no server, and for other engines than vLLM."""
    for refused, hint in _refusals(candidate, format, config):
        raise UsageError(refused, field="export", hint=hint)
    candidate = replace(candidate, model=_OWN_MODEL) if config else _published(candidate)
    nodes = candidate.placement.nodes
    if format == COMPOSE:
        return _compose(candidate, request, config)
    if format in ON_CLUSTERS:
        return _on_cluster(candidate, request, format)
    about = (*_about(candidate, request), *_spread(candidate), _to_do(format))
    spec, network = candidate.spec, None
    if nodes > 1:
        lines = _ray_lines(candidate, request, *_RANKS[format])
        spec, network = replace(spec, count=nodes), spec.offer.instance.network
    else:
        lines = (_docker_lines if format == "terraform" else _shell_lines)(candidate, request)
    return export_start(Start(spec, about, tuple(lines), network), format)


def _refusals(
    candidate: GenerationCandidate, format: str, config: Path | None
) -> Iterator[tuple[Message, Message]]:
    """Yield why a format cannot start the candidate, each reason with a hint what to do instead."""
    if config and format != COMPOSE:
        yield (
            Message(
                "the model is a folder of this machine, which a rented one does not have: {folder}",
                folder=str(config.parent),
            ),
            Message(
                "take {compose}, on the machine that has the folder, or name a checkpoint by {model}",
                compose=COMPOSE,
                model=FieldName("model"),
            ),
        )
    one_of = Message("take one of {formats}").text
    if format not in FORMATS:
        refused = Message("{format} starts no server of a language model", format=format)
        yield refused, Message(one_of, formats=FORMATS)
    if candidate.engine is not LlmEngine.VLLM:
        refused = Message(
            "{export} starts vLLM, and the answer is about {engine}",
            export=FieldName("export"),
            engine=engine_text(candidate),
        )
        yield refused, Message("ask for {engine} vllm", engine=FieldName("engine"))
    if candidate.placement.nodes > 1 and format not in _RANKS:
        refused = Message("{format} starts no model over several instances", format=format)
        yield refused, Message(one_of, formats=tuple(_RANKS))


def serve_words(candidate: GenerationCandidate, request: ServingQuestion) -> list[str]:
    """Return the arguments of one replica's `vllm serve`, the model first."""
    placement = candidate.placement
    weights, format = _weights(candidate), candidate.precision
    name = weights.checkpoint
    if not (weights.known or weights.made):  # a placeholder that the user must replace
        name = f"PUT-{format}-CHECKPOINT-HERE/{name.rpartition('/')[2]}"
    words = [name, "--tensor-parallel-size", str(placement.tensor_parallel)]
    if placement.ranks > 1:
        words += ["--data-parallel-size", str(placement.ranks), "--enable-expert-parallel"]
    return [*words, *engine_words(candidate, request)]


def engine_words(candidate: GenerationCandidate, request: ServingQuestion) -> list[str]:
    """Return the arguments for precision, context, memory and speculation, whatever the model and split."""
    words = [*_FLAGS.get(candidate.precision, ())]
    if _weights(candidate).made:
        words += ["--quantization", "fp8"]
    if candidate.kv_precision is KvPrecision.FP8:
        words += ["--kv-cache-dtype", "fp8"]
    words += ["--max-model-len", str(_longest_tokens(candidate, request))]
    words += ["--max-num-seqs", str(MOST_SEQUENCES), "--gpu-memory-utilization", GPU_MEMORY_SHARE]
    words += ["--load-format", _LOADER]
    if request.draft_acceptance is not None:
        _, tokens = request.draft_acceptance.split(",")
        words += speculation_words(tokens, request.draft_model)
    return words


def _weights(candidate: GenerationCandidate) -> Weights:
    """Return the weights to load; a user's folder is loaded as it is."""
    if candidate.model == _OWN_MODEL:
        return Weights(_OWN_MODEL)
    return bundled_language_models().weights_in(candidate.model, candidate.precision)


def _longest_tokens(candidate: GenerationCandidate, request: ServingQuestion) -> int:
    """Return the longest request in tokens: as asked, else up to `_LONGER` mean ones that memory can hold."""
    if request.context_tokens is not None:
        return request.longest_tokens
    room = min(candidate.memory.longest_context, _LONGER * request.longest_tokens)
    return max(request.longest_tokens, room)


def _about(
    candidate: GenerationCandidate, request: ServingQuestion, config: Path | None = None
) -> tuple[str, ...]:
    rate, confidence = candidate.rates.output_tokens_per_second, request.confidence
    asked = {**question_document(request), "model": candidate.model}
    lines = [
        f"{question_text({'request': asked}, report_texts('en'))}{chance_text(candidate.probability)}",
        f"Weights {candidate.precision}: {lower_name(confidence)} "
        f"{floor_rate(rate.lower):,g} output tokens/s (modelled), {engine_text(candidate)}, "
        f"{placement_message(placement_block(candidate.placement))}",
    ]
    # If the question names no format, or a 16-bit one, the published checkpoint has it.
    if request.precision not in (None, *SIXTEEN_BIT):
        lines.append(_checkpoint_line(candidate))
    if config is not None and config.name != _CONFIG:
        lines.append(f"vLLM reads {_CONFIG}: call {config.name} so in its folder.")
    tuned = f"{candidate.model}-Instruct"
    if any(name.startswith(tuned) for name in bundled_language_models().names()):
        lines.append(f"This is the base model: for chats name {tuned}.")
    longest = _longest_tokens(candidate, request)
    lines.append(
        f"Requests of more than {longest:,} tokens, in and out, are refused: --max-context sets that."
    )
    return tuple(lines)


def _published(candidate: GenerationCandidate) -> GenerationCandidate:
    """Return the candidate with its checkpoint and, if vLLM must quantise that, twice the disk size."""
    weights, disk = _weights(candidate), candidate.spec.disk
    if weights.made and disk.price is not None:
        disk = replace(disk, size_gib=2 * disk.size_gib)
    return replace(candidate, model=weights.checkpoint, spec=replace(candidate.spec, disk=disk))


def _checkpoint_line(candidate: GenerationCandidate) -> str:
    """Return whether the checkpoint has the recommended format already, or else how to get one."""
    model, format, weights = candidate.model, candidate.precision, _weights(candidate)
    if model == _OWN_MODEL:
        return f"The folder needs a checkpoint whose weights are {format} already."
    if weights.known:
        return f"{model} has its weights in {format}."
    tuned = f" (of the instruction-tuned model: {weights.tuned})" if weights.tuned else ""
    if weights.made:
        return (
            f"No fp8 checkpoint of {model} is known here{tuned}: vLLM quantises its 16-bit weights on load, "
            "which take twice the disk; neither price nor start time counts that."
        )
    return (
        f"No {format} checkpoint of {model} is known here: put one in its place{tuned}, or make one with "
        "llm-compressor."
    )


def _spread(candidate: GenerationCandidate) -> tuple[str, ...]:
    """Return what the user must do to spread requests over replicas and instances."""
    lines = []
    if candidate.placement.replicas > 1:
        last = FIRST_PORT + candidate.placement.replicas - 1
        lines.append(f"Replicas listen on ports {FIRST_PORT} to {last}: spread requests over them.")
    groups = candidate.spec.count // candidate.placement.nodes
    if groups > 1:
        kind = "instances" if candidate.placement.nodes == 1 else f"groups of {candidate.placement.nodes}"
        lines.append(
            f"The rate is that of {groups} {kind}: start each so, and spread requests over "
            "all of them; a load balancer is not included."
        )
    return tuple(lines)


# How each tool passes on a Hugging Face token.
_TOKENS = {
    "skypilot": "sky launch --env HF_TOKEN",
    "dstack": "dstack apply -e HF_TOKEN",
    "terraform": "set TF_VAR_hf_token",
    COMPOSE: "set HF_TOKEN",
}


def _to_do(format: str) -> str:
    return (
        f"For a gated model {_TOKENS[format]}. Open port {FIRST_PORT} yourself. Not yet run on a cloud: "
        "check before use."
    )


def _gpus_of(candidate: GenerationCandidate) -> list[str]:
    """Return each replica's GPUs by their CUDA indices: ['0,1', '2,3']."""
    width, replicas = candidate.placement.width, candidate.placement.replicas
    return [",".join(str(replica * width + index) for index in range(width)) for replica in range(replicas)]


def _shell_lines(candidate: GenerationCandidate, request: ServingQuestion) -> list[str]:
    """Return shell lines for a container or image that has Python already."""
    words = shlex.join(serve_words(candidate, request))
    served = [
        f"CUDA_VISIBLE_DEVICES={gpus} vllm serve {words} --port {port} &"
        for port, gpus in enumerate(_gpus_of(candidate), FIRST_PORT)
    ]
    return [f"pip install {shlex.quote(vllm_requirement(candidate))}", *served, "wait"]


# Each tool's variables for a node's number and for the address of the first node.
_RANKS = {
    "skypilot": ("$SKYPILOT_NODE_RANK", '$(echo "$SKYPILOT_NODE_IPS" | head -n 1)'),
    "dstack": ("$DSTACK_NODE_RANK", "$DSTACK_MASTER_NODE_IP"),
}


def _ray_lines(candidate: GenerationCandidate, request: ServingQuestion, rank: str, first: str) -> list[str]:
    """Return lines for every node; the first serves on all nodes over Ray (docs.vllm.ai, parallelism)."""
    words = shlex.join(serve_words(candidate, request))
    over = f"--pipeline-parallel-size {candidate.placement.nodes} --distributed-executor-backend ray"
    return [
        f"pip install {shlex.quote(vllm_requirement(candidate))} ray",
        f'if [ "{rank}" = 0 ]; then',
        "  ray start --head --port=6379",
        f"  vllm serve {words} {over} --port {FIRST_PORT}",
        "else",
        f'  until ray start --address="{first}:6379" --block; do sleep 5; done',
        "fi",
    ]


def _docker_lines(candidate: GenerationCandidate, request: ServingQuestion) -> list[str]:
    """Return shell lines for a machine with only the driver and Docker, such as the Deep Learning AMI."""
    words = shlex.join(serve_words(candidate, request))
    is_own = candidate.spec.disk.price is None
    folder = _OWN_DISK if is_own else _HUB
    return [
        *(() if is_own else _MOUNT),
        *(
            f"docker run -d --restart=always --gpus '\"device={gpus}\"' --ipc=host -p {port}:8000 "
            f"-v {folder}:{_HUB} -e HF_TOKEN {_image(candidate)} --model {words}"
            for port, gpus in enumerate(_gpus_of(candidate), FIRST_PORT)
        ),
    ]


def vllm_requirement(candidate: GenerationCandidate) -> str:
    """'vllm[runai]==0.18.*': any patch of the version that the rates were predicted for."""
    minor = _minor(candidate.engine_version)
    return f"vllm[runai]=={minor}.*" if minor else "vllm[runai]"


def _image(candidate: GenerationCandidate) -> str:
    """Return the image of the first release of the candidate's vLLM version."""
    minor = _minor(candidate.engine_version)
    return f"{_IMAGE}:v{minor}.0" if minor else f"{_IMAGE}:latest"


def _minor(version: str) -> str:
    """Return '0.18' for '0.18' and '0.18.1', and '' for a text that names no release."""
    parts = version.split(".")[:2]
    return ".".join(parts) if len(parts) == 2 and all(map(str.isdigit, parts)) else ""


def _compose(candidate: GenerationCandidate, request: ServingQuestion, config: Path | None) -> str:
    """Return a Docker Compose file (Compose Specification, `deploy.resources`) for one instance."""
    import yaml

    words = ["--model", *serve_words(candidate, request)]
    if config is not None and request.kv_precision is KvPrecision.BF16:
        words += ["--kv-cache-dtype", "bfloat16"]  # a checkpoint may ask for fp8
    folders = [f"models:{_HUB}", *([f"{config.parent}:{_OWN_MODEL}:ro"] if config else [])]
    services: dict[str, Any] = {}
    for index, gpus in enumerate(_gpus_of(candidate)):
        device = {"driver": "nvidia", "device_ids": gpus.split(","), "capabilities": ["gpu"]}
        services[f"replica-{index}"] = {
            "image": _image(candidate),
            "command": list(words),
            "ipc": "host",
            "ports": [f"{FIRST_PORT + index}:8000"],
            "environment": ["HF_TOKEN"],
            "volumes": list(folders),
            "deploy": {"resources": {"reservations": {"devices": [device]}}},
            "restart": "unless-stopped",
        }
    text: str = yaml.safe_dump({"services": services, "volumes": {"models": {}}}, sort_keys=False, width=1000)
    about = (*_about(candidate, request, config), *_spread(candidate), _to_do(COMPOSE))
    return header(Start(candidate.spec, about, ("up",))) + text


# The predicted time until an engine serves does not include this download.
_DOWNLOAD_SECONDS = 3600
_TEMPLATE = Path(__file__).parents[1] / "templates/cluster.yaml"


def _on_cluster(candidate: GenerationCandidate, request: ServingQuestion, format: str) -> str:
    """Return a Deployment and its Service (Kubernetes apps/v1 and v1), or KServe's InferenceService. One pod
    runs each replica of all instances, on nodes of the instance type."""
    import yaml

    spec, pods = candidate.spec, candidate.placement.replicas * candidate.spec.count
    template = yaml.safe_load(_TEMPLATE.read_text(encoding="utf-8"))
    pod, documents = template["pod"], template[format]
    (container,) = pod["containers"]
    container["image"], container["args"] = _image(candidate), ["--model", *serve_words(candidate, request)]
    container["resources"] = {"limits": {"nvidia.com/gpu": candidate.placement.width}}
    start = container["startupProbe"]
    patience = _DOWNLOAD_SECONDS + candidate.ready.upper_seconds
    start["failureThreshold"] = math.ceil(patience / start["periodSeconds"])
    # The catalogue appends the GPUs to the names of Google's machines, after a plus sign.
    machine, _, _ = spec.offer.instance.name.partition("+")
    pod["nodeSelector"] = {"node.kubernetes.io/instance-type": machine}
    served = documents[0]["spec"]
    if format == KSERVE:
        container["name"] = "kserve-container"  # KServe looks for that name
        served["predictor"] |= {"minReplicas": pods, "maxReplicas": pods, **pod}
    else:
        served["replicas"], served["template"]["spec"] = pods, pod
    spot = ", spot" if is_spot(spec) else ""
    lines = (
        *_about(candidate, request),
        f"Nodes: {spec.count} x {spec.offer.instance.name}{spot}. The weights lie in an emptyDir: make each "
        f"node's root volume larger by {disk_text(spec.disk)}. Not yet run on a cloud.",
        "A gated model takes: kubectl create secret generic huggingface --from-literal=token=...",
    )
    text: str = yaml.safe_dump_all(documents, sort_keys=False, width=1000)
    return header(Start(spec, lines, ("apply",))) + text
