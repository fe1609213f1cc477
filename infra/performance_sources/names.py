"""What the sources call GPUs and networks, in the words of gpus.csv and torchvision.

Networks, GPUs and systems that are not named here are left out.
"""

from __future__ import annotations

TASKS = {"train": "training", "training": "training", "inference": "inference"}
TORCHVISION_GPUS = {
    "GeForce RTX 2080 Ti": "RTX 2080 Ti",
    "TITAN Xp": "TITAN Xp",
    "TITAN RTX": "TITAN RTX",
    "A100-SXM4-40GB": "A100-SXM4-40GB",
    "GeForce GTX 1080 Ti": "GTX 1080 Ti",
    "TITAN V": "TITAN V",
}
TIMM_NETWORKS = {
    "mobilenetv2_100": "mobilenet_v2",
    "mnasnet_100": "mnasnet1_0",
    "densenet121": "densenet121",
    "densenet161": "densenet161",
    "densenet169": "densenet169",
    "densenet201": "densenet201",
    "inception_v3": "inception_v3",
    "resnet18": "resnet18",
    "resnet34": "resnet34",
    "resnet50": "resnet50",
    "resnet101": "resnet101",
    "resnet152": "resnet152",
    "resnext50_32x4d": "resnext50_32x4d",
    "resnext101_32x8d": "resnext101_32x8d",
    "vgg11": "vgg11",
    "vgg11_bn": "vgg11_bn",
    "vgg13": "vgg13",
    "vgg13_bn": "vgg13_bn",
    "vgg16": "vgg16",
    "vgg16_bn": "vgg16_bn",
    "vgg19": "vgg19",
    "vgg19_bn": "vgg19_bn",
    "wide_resnet50_2": "wide_resnet50_2",
    "wide_resnet101_2": "wide_resnet101_2",
}
TIMM_FILES = {
    "benchmark-infer-amp-nchw-pt210-cu121-rtx3090.csv": ("inference", "RTX 3090"),
    "benchmark-infer-amp-nchw-pt240-cu124-rtx3090.csv": ("inference", "RTX 3090"),
    "benchmark-infer-amp-nchw-pt240-cu124-rtx4090.csv": ("inference", "RTX 4090"),
    "benchmark-infer-amp-nchw-pt291-cu128-4090.csv": ("inference", "RTX 4090"),
    "benchmark-train-amp-nchw-pt112-cu113-rtx3090.csv": ("training", "RTX 3090"),
}
PROFET_GPUS = {"g4dn.xlarge": "T4", "p3.2xlarge": "V100-SXM2-16GB", "g3s.xlarge": "M60"}
PROFET_NETWORKS = {
    "ResNet18": "resnet18",
    "ResNet34": "resnet34",
    "ResNet50": "resnet50",
    "VGG11": "vgg11",
    "VGG13": "vgg13",
    "VGG16": "vgg16",
    "VGG19": "vgg19",
    "MobileNetV2": "mobilenet_v2",
}
# Runs without XLA and with one GPU; TF32 is on where the TensorFlow build had it.
LAMBDA_SYSTEMS = {
    "7502-A100-PCIE-40GB": ("A100-PCIE-40GB", True),
    "7502-GeForce_RTX_3070": ("RTX 3070", True),
    "7662-GeForce_RTX_3090": ("RTX 3090", True),
    "7742-1xA100-SXM4-40GB_TF2_3": ("A100-SXM4-40GB", False),
    "Gold_6230-GeForce_RTX_2080_Ti_trt_TF1_15": ("RTX 2080 Ti", False),
    "Gold_6230-GeForce_RTX_2080_Ti_trt_TF2_2": ("RTX 2080 Ti", False),
    "Gold_6230-Quadro_RTX_8000_trt_TF1_15": ("Quadro RTX 8000", False),
    "Gold_6230-Quadro_RTX_8000_trt2_TF2_2": ("Quadro RTX 8000", False),
    "Platinum-Tesla_V100-SXM3-32GB_HP16_TF2_2": ("V100-SXM3-32GB", False),
    "Processor-LambdaCloud_1xQuadro_RTX_6000": ("Quadro RTX 6000", False),
    "i7-6850K-GeForce_GTX_1080_Ti": ("GTX 1080 Ti", False),
}
LAMBDA_NETWORKS = {"inception3": "inception_v3"} | {
    name: name for name in ("alexnet", "resnet50", "resnet152", "vgg16")
}
MXNET_GPUS = {"M40": "M40", "M60": "M60", "P100": "P100-SXM2-16GB", "V100": "V100-SXM2-16GB"}
MLPERF_GPUS = {
    "NVIDIA A10": "A10",
    "NVIDIA A30": "A30",
    "NVIDIA A100-PCIe-40GB": "A100-PCIE-40GB",
    "NVIDIA A100-SXM4": "A100-SXM4-40GB",
    "NVIDIA H100-SXM-80GB": "H100-SXM5-80GB",
    "NVIDIA Quadro RTX 6000": "Quadro RTX 6000",
    "NVIDIA Quadro RTX 8000": "Quadro RTX 8000",
    "NVIDIA T4": "T4",
    "NVIDIA TITAN RTX": "TITAN RTX",
}
MLPERF_BATCH = 128
TORCH7_GPUS = {
    "GeForce GTX 1080": "GTX 1080",
    "TITAN X": "TITAN X (Pascal)",
    "GeForce GTX TITAN X": "TITAN X (Maxwell)",
    "GeForce GTX 1080 Ti": "GTX 1080 Ti",
}
TORCH7_NETWORKS = {
    "googlenet-v1": "googlenet",
    "resnet-18": "resnet18",
    "resnet-34": "resnet34",
    "resnet-50": "resnet50",
    "resnet-101": "resnet101",
    "resnet-152": "resnet152",
    "vgg16": "vgg16",
    "vgg19": "vgg19",
}
