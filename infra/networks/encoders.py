"""Networks of transformers by their checkpoints' configurations: nothing is downloaded.

The numbers are those of the checkpoints' public config.json; what a class has as its default is
left out. `_s` and the like make variants of a family at the inputs that people use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from advisor.infra.networks.variants import Variant

Config = Mapping[str, Any]
Shapes = Mapping[str, tuple[int, ...]]

_LENGTHS = (128, 384, 512)
# The last stages of a detector's backbone are trained; transformers freezes those of its own
# ResNet by names that only timm's has.
_TUNED = re.compile(r"backbone\..*\.stages\.[1-3]\.")
_MANY_CLASSES = 1000


class Encoder(Struct, frozen=True):
    """A class of transformers with a configuration, and the sizes of what it takes by name.

    Names that end in `ids` take whole numbers, others floats.
    """

    model: str
    config: Config
    takes: Shapes

    def build(self) -> Any:
        """See `Subject`."""
        import transformers

        made: Any = getattr(transformers, self.model)
        network = made(_config(made.config_class, self.config))
        for name, parameter in network.named_parameters():
            if _TUNED.search(name):
                parameter.requires_grad_(True)
        return network

    def synthetic_batch(self, batch_size: int, device: str = "cpu") -> tuple[Any, Any]:
        """See `Subject`."""
        import torch

        def tensor(name: str, shape: tuple[int, ...]) -> Any:
            kind = torch.int64 if name.endswith(("ids", "mask")) else torch.float32
            return torch.ones(batch_size, *shape, dtype=kind, device=device)

        return {name: tensor(name, shape) for name, shape in self.takes.items()}, None

    def forward(self, network: Any, inputs: Any) -> Any:
        """See `Subject`."""
        return network(**inputs)

    def training_loss(self, network: Any, inputs: Any, targets: Any) -> Any:
        """Cross entropy over a vocabulary, or the mean of what comes out first."""
        import torch

        del targets
        outputs = network(**inputs)
        first = _first(outputs)
        if first.ndim == 3 and first.shape[-1] > _MANY_CLASSES and "logits" in outputs:
            logits = first.flatten(0, 1)
            classes = torch.zeros(len(logits), dtype=torch.int64, device=logits.device)
            return torch.nn.functional.cross_entropy(logits, classes)
        return sum(value_.float().mean() for value_ in _floats(outputs))


def _config(made: Any, values: Config) -> Any:
    """Configurations within it are made too: those of a backbone, of text and of images."""
    import transformers

    plain = dict(values)
    for name, value in values.items():
        if isinstance(value, Mapping) and "class" in value:
            inner = dict(value)
            plain[name] = _config(getattr(transformers, inner.pop("class")), inner)
    return made(**plain)


def _floats(outputs: Any) -> list[Any]:
    """What the loss of a network of several outputs goes by: all that need a gradient."""
    from advisor.models.zoo.kernels import tensors_in

    values = outputs.to_tuple() if hasattr(outputs, "to_tuple") else outputs
    return [
        entry for entry in tensors_in(values) if entry.requires_grad and entry.is_floating_point()
    ]


def _first(outputs: Any) -> Any:
    from advisor.models.zoo.kernels import tensors_in

    if "logits" in outputs:
        return outputs["logits"]
    return next(tensors_in(outputs.to_tuple()))


def _variant(
    name: str, model: str, config: Config, takes: Shapes, shape: str, aliases: Sequence[str],
    sample: str, data: str,
) -> Variant:  # fmt: skip
    return Variant(
        library="transformers", name=name, input=shape, sample=sample, data=data,
        aliases=tuple(aliases), subject=lambda: Encoder(model, config, takes),
    )  # fmt: skip


class Family(Struct, frozen=True):
    """Checkpoints of one class: `sizes` has the name, its configuration and other names."""

    model: str
    common: Config
    sizes: Sequence[tuple[str, Config, Sequence[str]]]
    inputs: Callable[[Config], Sequence[tuple[str, Shapes]]]
    sample: str = "sequence"
    data: str = "tokens"

    def variants(self) -> list[Variant]:
        """Every checkpoint at every input."""
        return [
            _variant(
                name, self.model, {**self.common, **config}, takes, shape, aliases,
                self.sample, self.data,
            )
            for name, config, aliases in self.sizes
            for shape, takes in self.inputs({**self.common, **config})
        ]  # fmt: skip


def _tokens(config: Config) -> list[tuple[str, Shapes]]:
    del config
    return [(f"seq:{length}", {"input_ids": (length,)}) for length in _LENGTHS]


def _pairs(config: Config) -> list[tuple[str, Shapes]]:
    """As many words in as out."""
    del config
    return [
        (f"seq:{length}", {"input_ids": (length,), "decoder_input_ids": (length,)})
        for length in _LENGTHS
    ]


def _pixels(*sizes: tuple[int, int]) -> Callable[[Config], list[tuple[str, Shapes]]]:
    def inputs(config: Config) -> list[tuple[str, Shapes]]:
        side = config.get("image_size", 224)
        return [
            (f"3x{height}x{width}", {"pixel_values": (3, height, width)})
            for height, width in sizes or ((side, side),)
        ]

    return inputs


def _size(width: int, layers: int, heads: int, inner: int | None = None) -> dict[str, int]:
    return {
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": inner or 4 * width,
    }


_BASE, _LARGE = _size(768, 12, 12), _size(1024, 24, 16)
_NO_CACHE: Config = {"use_cache": False}
_BART_LARGE = {
    "d_model": 1024, "encoder_layers": 12, "decoder_layers": 12, "encoder_attention_heads": 16,
    "decoder_attention_heads": 16, "encoder_ffn_dim": 4096, "decoder_ffn_dim": 4096,
}  # fmt: skip
_BART_BASE = {
    "d_model": 768, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 12,
    "decoder_attention_heads": 12, "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072,
}  # fmt: skip


def _t5(width: int, layers: int, heads: int, inner: int) -> dict[str, int]:
    return {"d_model": width, "num_layers": layers, "num_heads": heads, "d_ff": inner}


_GATED = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}


def _gpt2(width: int, layers: int, heads: int) -> dict[str, int]:
    return {"n_embd": width, "n_layer": layers, "n_head": heads}


def _opt(width: int, layers: int, heads: int) -> dict[str, int]:
    return {
        "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads,
        "ffn_dim": 4 * width,
    }  # fmt: skip


def _distil(layers: int) -> dict[str, int]:
    return {"n_layers": layers}


_TEXT = (
    Family("BertModel", {}, (
        ("bert-base-uncased", _BASE, ("bert-base-encoder", "bge-base-en-v1.5", "e5-base-v2",
            "gte-base", "bert-base-NER", "bert-base-mlm")),
        ("bert-large-uncased", _LARGE, ("bert-large", "bge-large-en-v1.5", "e5-large-v2",
            "gte-large", "bert-large-encoder")),
        ("bert-base-cased", {**_BASE, "vocab_size": 28_996}, ("biobert", "dslim/bert-base-ner")),
        ("bert-large-cased", {**_LARGE, "vocab_size": 28_996}, ()),
        ("bert-base-multilingual-cased", {**_BASE, "vocab_size": 119_547}, ("mbert",)),
        ("bert-base-chinese", {**_BASE, "vocab_size": 21_128}, ()),
        ("all-MiniLM-L6-v2", _size(384, 6, 12), ("minilm", "minilm-l6", "multi-qa-MiniLM-L6-cos-v1",
            "ms-marco-MiniLM-L6-v2")),
        ("MiniLM-L12-H384-uncased", _size(384, 12, 12), ("all-MiniLM-L12-v2", "minilm-l12",
            "bge-small-en-v1.5", "e5-small-v2", "gte-small", "ms-marco-MiniLM-L12-v2")),
        ("bert-tiny", _size(128, 2, 2), ("bert_uncased_L-2_H-128_A-2",)),
        ("bert-mini", _size(256, 4, 4), ()),
        ("bert-small", _size(512, 4, 8), ()),
        ("bert-medium", _size(512, 8, 8), ()),
    ), _tokens),
    Family("RobertaModel", {"vocab_size": 50_265, "max_position_embeddings": 514,
                            "type_vocab_size": 1}, (
        ("roberta-base", _BASE, ("roberta",)),
        ("roberta-large", _LARGE, ()),
        ("distilroberta-base", _size(768, 6, 12), ("distilroberta",)),
        ("camembert-base", {**_BASE, "vocab_size": 32_005}, ()),
    ), _tokens),
    Family("XLMRobertaModel", {"vocab_size": 250_002, "max_position_embeddings": 514,
                               "type_vocab_size": 1}, (
        ("xlm-roberta-base", _BASE, ("xlm-r-base", "xlmr-base", "multilingual-e5-base")),
        ("xlm-roberta-large", _LARGE, ("xlm-r-large", "xlmr-large", "bge-m3",
            "multilingual-e5-large")),
    ), _tokens),
    Family("DistilBertModel", {}, (
        ("distilbert-base-uncased", _distil(6), ("distilbert", "distilbert-base",
            "distilbert-base-uncased-finetuned-sst-2-english")),
        ("distilbert-base-cased", {**_distil(6), "vocab_size": 28_996}, ()),
        ("distilbert-base-multilingual-cased", {**_distil(6), "vocab_size": 119_547}, ()),
    ), _tokens),
    Family("AlbertModel", {}, (
        ("albert-base-v2", _BASE, ("albert", "albert-base")),
        ("albert-large-v2", _LARGE, ("albert-large",)),
        ("albert-xlarge-v2", _size(2048, 24, 16), ("albert-xlarge",)),
        ("albert-xxlarge-v2", _size(4096, 12, 64), ("albert-xxlarge",)),
    ), _tokens),
    Family("ElectraModel", {}, (
        ("electra-small-discriminator", _size(256, 12, 4), ("electra-small",)),
        ("electra-base-discriminator", {**_BASE, "embedding_size": 768}, ("electra-base",)),
        ("electra-large-discriminator", {**_LARGE, "embedding_size": 1024}, ("electra-large",)),
    ), _tokens),
    Family("DebertaV2Model", {
        "relative_attention": True, "position_buckets": 256, "norm_rel_ebd": "layer_norm",
        "share_att_key": True, "pos_att_type": ["p2c", "c2p"], "type_vocab_size": 0,
        "position_biased_input": False, "max_relative_positions": -1, "vocab_size": 128_100,
    }, (
        ("deberta-v3-xsmall", _size(384, 12, 6), ()),
        ("deberta-v3-small", _size(768, 6, 12), ()),
        ("deberta-v3-base", _BASE, ()),
        ("deberta-v3-large", _LARGE, ()),
        ("mdeberta-v3-base", {**_BASE, "vocab_size": 251_000}, ()),
    ), _tokens),
    Family("MPNetModel", {}, (
        ("mpnet-base", _BASE, ("all-mpnet-base-v2", "mpnet", "multi-qa-mpnet-base-dot-v1")),
    ), _tokens),
    Family("ModernBertModel", {}, (
        ("ModernBERT-base", _size(768, 22, 12, 1152), ("gte-modernbert-base",)),
        ("ModernBERT-large", _size(1024, 28, 16, 2624), ()),
    ), _tokens),
    Family("SqueezeBertModel", {}, (("squeezebert-uncased", _BASE, ("squeezebert",)),), _tokens),
    Family("LongformerModel", {"vocab_size": 50_265, "max_position_embeddings": 4098,
                               "type_vocab_size": 1, "attention_window": 512}, (
        ("longformer-base-4096", _BASE, ("longformer-base",)),
        ("longformer-large-4096", _LARGE, ("longformer-large",)),
    ), lambda _: [(f"seq:{n}", {"input_ids": (n,)}) for n in (1024, 2048, 4096)]),
    Family("GPT2LMHeadModel", _NO_CACHE, (
        ("gpt2", _gpt2(768, 12, 12), ("gpt2-small",)),
        ("gpt2-medium", _gpt2(1024, 24, 16), ()),
        ("gpt2-large", _gpt2(1280, 36, 20), ()),
        ("gpt2-xl", _gpt2(1600, 48, 25), ()),
        ("distilgpt2", _gpt2(768, 6, 12), ()),
    ), lambda _: [(f"seq:{n}", {"input_ids": (n,)}) for n in (*_LENGTHS, 1024)]),
    Family("OPTForCausalLM", _NO_CACHE, (
        ("opt-125m", _opt(768, 12, 12), ()),
        ("opt-350m", {**_opt(1024, 24, 16), "word_embed_proj_dim": 512,
                      "do_layer_norm_before": False}, ()),
        ("opt-1.3b", {**_opt(2048, 24, 32), "word_embed_proj_dim": 2048}, ()),
        ("opt-2.7b", {**_opt(2560, 32, 32), "word_embed_proj_dim": 2560}, ()),
    ), lambda _: [(f"seq:{n}", {"input_ids": (n,)}) for n in (*_LENGTHS, 2048)]),
    Family("GPTNeoXForCausalLM", {**_NO_CACHE, "vocab_size": 50_304,
                                  "max_position_embeddings": 2048}, (
        ("pythia-70m", _size(512, 6, 8), ()),
        ("pythia-160m", _BASE, ()),
        ("pythia-410m", _LARGE, ()),
        ("pythia-1b", _size(2048, 16, 8), ()),
        ("pythia-1.4b", _size(2048, 24, 16), ()),
        ("pythia-2.8b", _size(2560, 32, 32), ()),
    ), lambda _: [(f"seq:{n}", {"input_ids": (n,)}) for n in (*_LENGTHS, 2048)]),
    Family("BioGptForCausalLM", _NO_CACHE, (("biogpt", _LARGE, ()),), _tokens),
    Family("GPTNeoForCausalLM", _NO_CACHE, (
        ("gpt-neo-125m", {"hidden_size": 768, "num_layers": 12, "num_heads": 12,
                          "attention_types": [[["global", "local"], 6]]}, ()),
        ("gpt-neo-1.3b", {}, ()),
    ), _tokens),
    Family("BartForConditionalGeneration", _NO_CACHE, (
        ("bart-base", _BART_BASE, ()),
        ("bart-large", _BART_LARGE, ("bart-large-cnn", "bart-large-mnli")),
    ), _pairs),
    Family("MBartForConditionalGeneration", {**_NO_CACHE, "vocab_size": 250_027}, (
        ("mbart-large-50", _BART_LARGE, ("mbart-large-cc25",)),
    ), _pairs),
    Family("PegasusForConditionalGeneration", {**_NO_CACHE, "vocab_size": 96_103}, (
        ("pegasus-large", {**_BART_LARGE, "encoder_layers": 16, "decoder_layers": 16},
         ("pegasus-xsum",)),
    ), _pairs),
    Family("MarianMTModel", {
        **_NO_CACHE, **_BART_BASE, "d_model": 512, "encoder_attention_heads": 8,
        "decoder_attention_heads": 8, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048,
        "vocab_size": 58_101, "pad_token_id": 58_100, "decoder_start_token_id": 58_100,
    }, (("opus-mt-en-de", {}, ("opus-mt", "marian")),), _pairs),
    Family("M2M100ForConditionalGeneration", {**_NO_CACHE, "vocab_size": 128_112}, (
        ("m2m100_418M", {**_BART_LARGE, "encoder_layers": 12, "decoder_layers": 12}, ()),
        ("nllb-200-distilled-600M", {**_BART_LARGE, "vocab_size": 256_206}, ("nllb-200",)),
    ), _pairs),
    Family("T5ForConditionalGeneration", _NO_CACHE, (
        ("t5-small", _t5(512, 6, 8, 2048), ()),
        ("t5-base", _t5(768, 12, 12, 3072), ("t5",)),
        ("t5-large", _t5(1024, 24, 16, 4096), ()),
        ("t5-3b", {**_t5(1024, 24, 32, 16_384), "d_kv": 128}, ()),
        ("flan-t5-small", {**_t5(512, 8, 6, 1024), **_GATED}, ("t5-v1_1-small",)),
        ("flan-t5-base", {**_t5(768, 12, 12, 2048), **_GATED}, ("t5-v1_1-base",)),
        ("flan-t5-large", {**_t5(1024, 24, 16, 2816), **_GATED}, ("t5-v1_1-large",)),
        ("flan-t5-xl", {**_t5(2048, 24, 32, 5120), **_GATED}, ("t5-v1_1-xl",)),
    ), _pairs),
)  # fmt: skip


def _resnet(depths: Sequence[int]) -> dict[str, Any]:
    return {"class": "ResNetConfig", "depths": list(depths), "out_features": ["stage4"]}


def _swin(width: int, depths: Sequence[int], heads: Sequence[int], window: int) -> dict[str, Any]:
    return {
        "embed_dim": width, "depths": list(depths), "num_heads": list(heads),
        "window_size": window,
    }  # fmt: skip


_SWIN_TINY = _swin(96, (2, 2, 6, 2), (3, 6, 12, 24), 7)
_SWIN_SMALL = _swin(96, (2, 2, 18, 2), (3, 6, 12, 24), 7)
_SWIN_BASE = _swin(128, (2, 2, 18, 2), (4, 8, 16, 32), 7)
_STAGES = {"out_features": ["stage1", "stage2", "stage3", "stage4"]}


def _convnext(depths: Sequence[int], widths: Sequence[int]) -> dict[str, Any]:
    return {"depths": list(depths), "hidden_sizes": list(widths), "num_labels": 1000}


def _segformer(depths: Sequence[int], widths: Sequence[int], decoder: int) -> dict[str, Any]:
    return {
        "depths": list(depths), "hidden_sizes": list(widths), "decoder_hidden_size": decoder,
        "num_labels": 150,
    }  # fmt: skip


_WIDE = (64, 128, 320, 512)
_DETR = {"use_timm_backbone": False, "use_pretrained_backbone": False, "num_labels": 91}
_CLASSES = {"num_labels": 1000}
_CLIP_TEXT = {"vocab_size": 49_408}


def _clip(side: int, patch: int, text: Config, vision: Config, joint: int) -> dict[str, Any]:
    return {
        "text_config": {**_CLIP_TEXT, **text},
        "vision_config": {**vision, "image_size": side, "patch_size": patch},
        "projection_dim": joint,
        "image_size": side,
    }


_CLIP_SMALL, _CLIP_LARGE = _size(512, 12, 8), _size(768, 12, 12)


def _image_and_text(length: int) -> Callable[[Config], list[tuple[str, Shapes]]]:
    def inputs(config: Config) -> list[tuple[str, Shapes]]:
        side = config["image_size"]
        takes = {"input_ids": (length,), "pixel_values": (3, side, side)}
        return [(f"3x{side}x{side}", takes)]

    return inputs


_VISION = (
    Family("ViTForImageClassification", _CLASSES, (
        ("vit-base-patch16-224", _BASE, ("vit-base",)),
        ("vit-large-patch16-224", _LARGE, ("vit-large",)),
        ("vit-huge-patch14-224-in21k", {**_size(1280, 32, 16), "patch_size": 14}, ()),
        ("vit-base-patch32-384", {**_BASE, "patch_size": 32, "image_size": 384}, ()),
        ("vit-base-patch16-384", {**_BASE, "image_size": 384}, ()),
        ("vit-large-patch16-384", {**_LARGE, "image_size": 384}, ()),
    ), _pixels(), "image", "image"),
    Family("DeiTForImageClassification", _CLASSES, (
        ("deit-base-distilled-patch16-224", _BASE, ()),
        ("deit-small-distilled-patch16-224", _size(384, 12, 6), ()),
        ("deit-tiny-distilled-patch16-224", _size(192, 12, 3), ()),
    ), _pixels(), "image", "image"),
    Family("ViTMSNForImageClassification", _CLASSES, (("vit-msn-base", _BASE, ()),),
           _pixels(), "image", "image"),
    Family("ViTMAEForPreTraining", {}, (("vit-mae-base", _BASE, ()),), _pixels(), "image",
           "image"),
    Family("BeitForImageClassification", {
        **_CLASSES, "use_mask_token": False, "use_absolute_position_embeddings": False,
        "use_relative_position_bias": True, "use_shared_relative_position_bias": False,
        "use_mean_pooling": True,
    }, (
        ("beit-base-patch16-224", _BASE, ("beit-base",)),
        ("beit-large-patch16-224", _LARGE, ("beit-large",)),
        ("beit-base-patch16-384", {**_BASE, "image_size": 384}, ()),
    ), _pixels(), "image", "image"),
    Family("Data2VecVisionForImageClassification", {
        **_CLASSES, "use_relative_position_bias": False, "use_shared_relative_position_bias": True,
    }, (("data2vec-vision-base", _BASE, ()),), _pixels(), "image", "image"),
    Family("Dinov2Model", {"image_size": 518, "patch_size": 14}, (
        ("dinov2-small", _size(384, 12, 6), ()),
        ("dinov2-base", _BASE, ()),
        ("dinov2-large", _LARGE, ()),
        ("dinov2-giant", {**_size(1536, 40, 24), "use_swiglu_ffn": True}, ()),
    ), _pixels((224, 224), (518, 518)), "image", "image"),
    Family("SwinForImageClassification", _CLASSES, (
        ("swin-tiny-patch4-window7-224", _SWIN_TINY, ("swin-tiny",)),
        ("swin-small-patch4-window7-224", _SWIN_SMALL, ("swin-small",)),
        ("swin-base-patch4-window7-224", _SWIN_BASE, ("swin-base",)),
        ("swin-large-patch4-window7-224",
         _swin(192, (2, 2, 18, 2), (6, 12, 24, 48), 7), ("swin-large",)),
    ), _pixels(), "image", "image"),
    Family("Swinv2ForImageClassification", _CLASSES, (
        ("swinv2-tiny-patch4-window8-256", {**_swin(96, (2, 2, 6, 2), (3, 6, 12, 24), 8),
                                            "image_size": 256}, ()),
        ("swinv2-base-patch4-window8-256", {**_swin(128, (2, 2, 18, 2), (4, 8, 16, 32), 8),
                                            "image_size": 256}, ()),
    ), _pixels(), "image", "image"),
    Family("ConvNextForImageClassification", {}, (
        ("convnext-tiny-224", _convnext((3, 3, 9, 3), (96, 192, 384, 768)), ("convnext-tiny",)),
        ("convnext-base-224", _convnext((3, 3, 27, 3), (128, 256, 512, 1024)), ("convnext-base",)),
        ("convnext-large-224", _convnext((3, 3, 27, 3), (192, 384, 768, 1536)),
         ("convnext-large",)),
    ), _pixels(), "image", "image"),
    Family("ResNetForImageClassification", _CLASSES, (
        ("resnet-50", {"depths": [3, 4, 6, 3]}, ()),
        ("resnet-101", {"depths": [3, 4, 23, 3]}, ()),
        ("resnet-152", {"depths": [3, 8, 36, 3]}, ()),
    ), _pixels(), "image", "image"),
    Family("MobileNetV2ForSemanticSegmentation", {"num_labels": 21, "output_stride": 16,
                                                  "finegrained_output": False}, (
        ("deeplabv3_mobilenet_v2_1.0_513", {}, ("deeplabv3_mobilenet_v2",)),
    ), _pixels((513, 513)), "image", "image"),
    Family("MobileViTForImageClassification", _CLASSES, (
        ("mobilevit-small", {"image_size": 256}, ()),
    ), _pixels(), "image", "image"),
    Family("SegformerForSemanticSegmentation", {}, (
        ("segformer-b0-finetuned-ade-512-512",
         _segformer((2, 2, 2, 2), (32, 64, 160, 256), 256), ("segformer-b0",
         "segformer-b0-ade-512", "mit-b0")),
        ("segformer-b1-finetuned-ade-512-512", _segformer((2, 2, 2, 2), _WIDE, 256),
         ("segformer-b1", "mit-b1")),
        ("segformer-b2-finetuned-ade-512-512", _segformer((3, 4, 6, 3), _WIDE, 768),
         ("segformer-b2", "mit-b2")),
        ("segformer-b3-finetuned-ade-512-512", _segformer((3, 4, 18, 3), _WIDE, 768),
         ("segformer-b3", "mit-b3")),
        ("segformer-b4-finetuned-ade-512-512", _segformer((3, 8, 27, 3), _WIDE, 768),
         ("segformer-b4", "mit-b4")),
        ("segformer-b5-finetuned-ade-640-640", _segformer((3, 6, 40, 3), _WIDE, 768),
         ("segformer-b5", "mit-b5")),
    ), _pixels((512, 512), (1024, 1024)), "image", "image"),
    Family("UperNetForSemanticSegmentation", {"num_labels": 150, "use_auxiliary_head": False}, (
        ("upernet-swin-tiny", {"backbone_config": {"class": "SwinConfig", **_SWIN_TINY, **_STAGES}},
         ()),
        ("upernet-swin-base", {"backbone_config": {"class": "SwinConfig", **_SWIN_BASE, **_STAGES}},
         ()),
        ("upernet-convnext-tiny", {"backbone_config": {
            "class": "ConvNextConfig", **_STAGES, "hidden_sizes": [96, 192, 384, 768],
            "depths": [3, 3, 9, 3]}}, ()),
    ), _pixels((512, 512)), "image", "image"),
    Family("Mask2FormerForUniversalSegmentation", {}, (
        ("mask2former-swin-tiny-coco-instance",
         {"backbone_config": {"class": "SwinConfig", **_SWIN_TINY, **_STAGES}},
         ("mask2former-swin-tiny", "mask2former")),
        ("mask2former-swin-base-coco-panoptic",
         {"backbone_config": {"class": "SwinConfig", **_SWIN_BASE, **_STAGES, "window_size": 12}},
         ("mask2former-swin-base",)),
    ), _pixels((384, 384)), "image", "image"),
    Family("MaskFormerForInstanceSegmentation", {}, (
        ("maskformer-swin-base-coco",
         {"backbone_config": {"class": "SwinConfig", **_SWIN_BASE, **_STAGES, "window_size": 12}},
         ("maskformer-swin-base", "maskformer")),
        ("maskformer-swin-tiny-coco",
         {"backbone_config": {"class": "SwinConfig", **_SWIN_TINY, **_STAGES}},
         ("maskformer-swin-tiny",)),
    ), _pixels((640, 640), (384, 384), (800, 800)), "image", "image"),
    Family("DetrForObjectDetection", _DETR, (
        ("detr-resnet-50", {"backbone_config": _resnet((3, 4, 6, 3))}, ("detr", "detr-r50")),
        ("detr-resnet-101", {"backbone_config": _resnet((3, 4, 23, 3))}, ("detr-r101",)),
    ), _pixels((800, 1066), (800, 1333), (800, 800)), "image", "image"),
    Family("ConditionalDetrForObjectDetection", _DETR, (
        ("conditional-detr-resnet-50", {"backbone_config": _resnet((3, 4, 6, 3))},
         ("conditional-detr",)),
    ), _pixels((800, 1066), (800, 1333)), "image", "image"),
    Family("DeformableDetrForObjectDetection", {**_DETR, "num_feature_levels": 4}, (
        ("deformable-detr", {"backbone_config": {
            **_resnet((3, 4, 6, 3)), "out_features": ["stage2", "stage3", "stage4"]}}, ()),
    ), _pixels((800, 1066), (800, 1333)), "image", "image"),
    Family("RTDetrForObjectDetection", {"num_labels": 80}, (
        ("rtdetr_r50vd", {}, ("rt-detr", "rtdetr-r50", "rtdetr")),
    ), _pixels((640, 640)), "image", "image"),
    Family("YolosForObjectDetection", {"num_labels": 91}, (
        ("yolos-base", {**_BASE, "image_size": [800, 1344]}, ()),
        ("yolos-small", {**_size(384, 12, 6), "image_size": [800, 1344]}, ()),
        ("yolos-tiny", {**_size(192, 12, 3), "image_size": [800, 1344]}, ()),
    ), _pixels((800, 1066), (800, 800)), "image", "image"),
    Family("DPTForDepthEstimation", {}, (
        ("dpt-large", {**_LARGE, "image_size": 384}, ()),
    ), _pixels((384, 384)), "image", "image"),
    Family("OwlViTForObjectDetection", {"image_size": 768}, (
        ("owlvit-base-patch32", {}, ("owlvit", "owl-vit")),
    ), _image_and_text(16), "image", "image"),
    Family("CLIPModel", {}, (
        ("clip-vit-base-patch32", _clip(224, 32, _CLIP_SMALL, _BASE, 512),
         ("clip-vit-b-32", "clip-vit-b32", "clip")),
        ("clip-vit-base-patch16", _clip(224, 16, _CLIP_SMALL, _BASE, 512),
         ("clip-vit-b-16", "clip-vit-b16")),
        ("clip-vit-large-patch14", _clip(224, 14, _CLIP_LARGE, _LARGE, 768),
         ("clip-vit-l-14", "clip-vit-l14", "clip-l")),
        ("clip-vit-large-patch14-336", _clip(336, 14, _CLIP_LARGE, _LARGE, 768),
         ("clip-vit-l-14-336",)),
    ), _image_and_text(77), "image", "image"),
    Family("SiglipModel", {}, (
        ("siglip-base-patch16-224",
         {"image_size": 224, "text_config": _BASE, "vision_config": {**_BASE, "image_size": 224}},
         ("siglip", "siglip-base")),
        ("siglip-so400m-patch14-384",
         {"image_size": 384, "text_config": _size(1152, 27, 16, 4304),
          "vision_config": {**_size(1152, 27, 16, 4304), "image_size": 384, "patch_size": 14}},
         ("siglip-so400m",)),
    ), _image_and_text(64), "image", "image"),
    Family("BlipForImageTextRetrieval", {}, (
        ("blip-itm-base", {"image_size": 384}, ("blip",)),
    ), _image_and_text(32), "image", "image"),
    Family("VideoMAEForVideoClassification", {"num_labels": 400}, (
        ("videomae-base-finetuned-kinetics", _BASE, ("videomae-base", "videomae")),
    ), lambda _: [("16x3x224x224", {"pixel_values": (16, 3, 224, 224)})], "clip", "tensor"),
    Family("TimesformerForVideoClassification", {"num_labels": 400}, (
        ("timesformer-base-finetuned-k400", _BASE, ("timesformer",)),
    ), lambda _: [("8x3x224x224", {"pixel_values": (8, 3, 224, 224)})], "clip", "tensor"),
)  # fmt: skip


def _whisper(width: int, layers: int, heads: int, decoder: int | None = None) -> dict[str, Any]:
    return {
        "d_model": width, "encoder_layers": layers, "decoder_layers": decoder or layers,
        "encoder_attention_heads": heads, "decoder_attention_heads": heads,
        "encoder_ffn_dim": 4 * width, "decoder_ffn_dim": 4 * width, "vocab_size": 51_865,
    }  # fmt: skip


def _spoken(config: Config) -> list[tuple[str, Shapes]]:
    """30 s of sound as a spectrogram, and 128 words of text."""
    bins = config.get("num_mel_bins", 80)
    return [(f"{bins}x3000", {"input_features": (bins, 3000), "decoder_input_ids": (128,)})]


def _waves(config: Config) -> list[tuple[str, Shapes]]:
    """10 s, 5 s and 15 s of sound at 16 kHz."""
    del config
    return [(f"wave:{n}", {"input_values": (n,)}) for n in (160_000, 80_000, 240_000)]


_DEEP_WAVE = {**_LARGE, "feat_extract_norm": "layer", "do_stable_layer_norm": True,
              "conv_bias": True}  # fmt: skip
_SPEECH = (
    Family("WhisperForConditionalGeneration", _NO_CACHE, (
        ("whisper-tiny", _whisper(384, 4, 6), ()),
        ("whisper-base", _whisper(512, 6, 8), ()),
        ("whisper-small", _whisper(768, 12, 12), ("whisper",)),
        ("whisper-medium", _whisper(1024, 24, 16), ()),
        ("whisper-large-v2", _whisper(1280, 32, 20), ("whisper-large",)),
        ("whisper-large-v3", {**_whisper(1280, 32, 20), "num_mel_bins": 128,
                              "vocab_size": 51_866}, ()),
        ("whisper-large-v3-turbo", {**_whisper(1280, 32, 20, 4), "num_mel_bins": 128,
                                    "vocab_size": 51_866}, ("whisper-turbo",)),
        ("distil-whisper-large-v3", {**_whisper(1280, 32, 20, 2), "num_mel_bins": 128,
                                     "vocab_size": 51_866}, ("distil-large-v3",)),
    ), _spoken, "sequence", "tensor"),
    Family("Wav2Vec2ForCTC", {"apply_spec_augment": False, "mask_time_prob": 0.0}, (
        ("wav2vec2-base-960h", _BASE, ("wav2vec2-base", "wav2vec2")),
        ("wav2vec2-large-960h", _LARGE, ("wav2vec2-large",)),
        ("wav2vec2-large-xlsr-53", _DEEP_WAVE, ("wav2vec2-large-lv60", "xlsr-53",
            "wav2vec2-xls-r-300m")),
    ), _waves, "sequence", "tensor"),
    Family("HubertForCTC", {"apply_spec_augment": False, "mask_time_prob": 0.0}, (
        ("hubert-base-ls960", _BASE, ("hubert-base", "hubert")),
        ("hubert-large-ls960-ft", _DEEP_WAVE, ("hubert-large",)),
    ), _waves, "sequence", "tensor"),
    Family("WavLMModel", {"apply_spec_augment": False, "mask_time_prob": 0.0}, (
        ("wavlm-base", _BASE, ("wavlm",)),
    ), _waves, "sequence", "tensor"),
    Family("ASTForAudioClassification", {"num_labels": 527}, (
        ("ast-finetuned-audioset-10-10-0.4593", _BASE, ("ast", "ast-base")),
    ), lambda _: [("1024x128", {"input_values": (1024, 128)})], "sequence", "tensor"),
)  # fmt: skip


def transformers_variants() -> list[Variant]:
    """Encoders and encoder-decoders of text, images and speech, and small language models."""
    return [variant for family in (*_TEXT, *_VISION, *_SPEECH) for variant in family.variants()]
