"""What the sources call GPUs and networks, in the words of the data sheets and torchvision.

Networks, GPUs and systems that are not named here are left out.
"""

from __future__ import annotations

TASKS = {"train": "training", "training": "training", "inference": "inference"}
LAMBDA_NETWORKS = {"inception3": "inception_v3"} | {
    name: name for name in ("alexnet", "resnet50", "resnet152", "vgg16")
}
MXNET_GPUS = {"M40": "M40", "M60": "M60", "P100": "P100-SXM2-16GB", "V100": "V100-SXM2-16GB"}
MLPERF_BATCH = 128
TORCH7_GPUS = {
    "GeForce GTX 1080": "GTX 1080",
    "TITAN X": "TITAN X (Pascal)",
    "GeForce GTX TITAN X": "TITAN X (Maxwell)",
    "GeForce GTX 1080 Ti": "GTX 1080 Ti",
}
