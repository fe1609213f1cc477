"""Networks that people ask for, of every architecture: what tests try instead of all 1,500."""

POPULAR = (
    "googlenet",
    "resnet50",
    "resnet18",
    "vit_b_16",
    "bert-base-uncased",
    "efficientnet_b0",
    "mobilenet_v3_large",
    "convnext_base",
    "swin_t",
    "vgg16",
    "lstm_ptb_medium",
    "yolov5s",
)
