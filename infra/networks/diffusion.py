"""Diffusion networks of diffusers by their public configurations; the sample is one step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from infra.networks.encoders import Encoder
from infra.networks.variants import Variant

_SD = {"sample_size": 64, "cross_attention_dim": 768}
_SD2 = {
    "cross_attention_dim": 1024, "attention_head_dim": [5, 10, 20, 20],
    "use_linear_projection": True,
}  # fmt: skip
_SDXL = {
    "sample_size": 128, "block_out_channels": [320, 640, 1280], "cross_attention_dim": 2048,
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
    "transformer_layers_per_block": [1, 2, 10], "attention_head_dim": [5, 10, 20],
    "use_linear_projection": True, "addition_embed_type": "text_time",
    "addition_time_embed_dim": 256, "projection_class_embeddings_input_dim": 2816,
}  # fmt: skip
_VAE = {
    "block_out_channels": [128, 256, 512, 512], "layers_per_block": 2, "latent_channels": 4,
    "down_block_types": ["DownEncoderBlock2D"] * 4, "up_block_types": ["UpDecoderBlock2D"] * 4,
}  # fmt: skip
_DIT = {
    "num_attention_heads": 16, "attention_head_dim": 72, "in_channels": 4, "out_channels": 8,
    "num_layers": 28, "patch_size": 2, "norm_type": "ada_norm_zero",
    "norm_elementwise_affine": False, "activation_fn": "gelu-approximate",
    "attention_bias": True, "num_embeds_ada_norm": 1000,
}  # fmt: skip
_PIXART = {
    "num_attention_heads": 16, "attention_head_dim": 72, "in_channels": 4, "out_channels": 8,
    "num_layers": 28, "cross_attention_dim": 1152, "caption_channels": 4096, "patch_size": 2,
    "attention_bias": True, "norm_elementwise_affine": False, "norm_type": "ada_norm_single",
}  # fmt: skip
_SD3 = {
    "sample_size": 128, "patch_size": 2, "in_channels": 16, "num_layers": 24,
    "attention_head_dim": 64, "num_attention_heads": 24, "joint_attention_dim": 4096,
    "caption_projection_dim": 1536, "pooled_projection_dim": 2048, "out_channels": 16,
    "pos_embed_max_size": 192,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Denoiser:
    """A class of diffusers; `takes` has sizes by name, `one.two` is `two` in a dictionary `one`.

    `decodes` says that it is the decoder of an autoencoder that is asked.
    """

    model: str
    config: Mapping[str, Any]
    takes: Mapping[str, tuple[int, ...]]
    decodes: bool = False

    def build(self) -> Any:
        """See `Subject`."""
        import diffusers

        network = getattr(diffusers, self.model)(**self.config)
        if self.decodes:
            network.encoder = network.quant_conv = None
        return network

    def synthetic_batch(self, batch_size: int, device: str = "cpu") -> tuple[Any, Any]:
        """See `Subject`."""
        import torch

        inputs: dict[str, Any] = {}
        for name, sizes in self.takes.items():
            kind = torch.int64 if name in ("class_labels",) else torch.float32
            outer, _, inner = name.rpartition(".")
            shape = sizes if name.endswith("_ids") and not outer else (batch_size, *sizes)
            place = inputs.setdefault(outer, {}) if outer else inputs
            place[inner] = torch.ones(shape, dtype=kind, device=device)
        return inputs, None

    def forward(self, network: Any, inputs: Any) -> Any:
        """See `Subject`."""
        if self.decodes:
            return network.decode(inputs["z"]).sample
        return network(**inputs, return_dict=False)[0]

    def training_loss(self, network: Any, inputs: Any, targets: Any) -> Any:
        """The squared distance from noise."""
        import torch

        del targets
        noise = self.forward(network, inputs)
        return torch.nn.functional.mse_loss(noise, torch.zeros_like(noise))


def _unet(side: int, words: int, **more: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    return {
        "sample": (4, side, side), "timestep": (), "encoder_hidden_states": (77, words),
        **{name.replace("__", "."): sizes for name, sizes in more.items()},
    }  # fmt: skip


def _xl(side: int) -> dict[str, tuple[int, ...]]:
    return _unet(
        side, 2048, added_cond_kwargs__text_embeds=(1280,), added_cond_kwargs__time_ids=(6,)
    )


def _flux(side: int) -> dict[str, tuple[int, ...]]:
    tokens = (side // 2) ** 2
    return {
        "hidden_states": (tokens, 64), "encoder_hidden_states": (512, 4096),
        "pooled_projections": (768,), "timestep": (), "guidance": (), "img_ids": (tokens, 3),
        "txt_ids": (512, 3),
    }  # fmt: skip


def _denoisers() -> list[
    tuple[str, str, Mapping[str, Any], str, Mapping[str, Any], tuple[str, ...]]
]:
    unet = "UNet2DConditionModel"
    one = ("stable-diffusion-v1-5", "stable-diffusion-1.4", "stable-diffusion", "sd-1.5", "sd15",
           "stable-diffusion-1.5-unet")  # fmt: skip
    two = ("stable-diffusion-2", "stable-diffusion-2.1-base", "sd-2.1", "sd21",
           "stable-diffusion-2.1-unet")  # fmt: skip
    xl = ("stable-diffusion-xl", "stable-diffusion-xl-base-1.0", "sdxl-unet")
    rows: list[Any] = []
    for side in (64, 96, 32):
        rows.append(("stable-diffusion-1.5", unet, _SD, f"4x{side}x{side}", _unet(side, 768), one))
    for side in (96, 64, 32):
        rows.append(
            ("stable-diffusion-2.1", unet, _SD2, f"4x{side}x{side}", _unet(side, 1024), two)
        )
    for side in (128, 64):
        rows.append(("sdxl", unet, _SDXL, f"4x{side}x{side}", _xl(side), xl))
    for side, pixels in ((32, 256), (64, 512)):
        takes = {"hidden_states": (4, side, side), "timestep": (), "class_labels": ()}
        rows.append(
            (
                "DiT-XL-2",
                "DiTTransformer2DModel",
                {**_DIT, "sample_size": side},
                f"4x{side}x{side}",
                takes,
                ("dit-xl", "dit-xl/2", f"DiT-XL-2-{pixels}"),
            )
        )
    for side in (64, 128):
        takes = {
            "hidden_states": (4, side, side),
            "timestep": (),
            "encoder_hidden_states": (120, 4096),
        }
        more = {"sample_size": side}
        if side == 128:
            more["use_additional_conditions"] = False
        rows.append(
            (
                "pixart-alpha",
                "PixArtTransformer2DModel",
                {**_PIXART, **more},
                f"4x{side}x{side}",
                takes,
                ("pixart-xl-2", "pixart"),
            )
        )
    for side in (128, 64):
        takes = {
            "hidden_states": (16, side, side),
            "timestep": (),
            "encoder_hidden_states": (333, 4096),
            "pooled_projections": (2048,),
        }
        rows.append(
            (
                "stable-diffusion-3-medium",
                "SD3Transformer2DModel",
                _SD3,
                f"16x{side}x{side}",
                takes,
                ("sd3", "sd3-medium", "stable-diffusion-3"),
            )
        )
    rows.append(
        (
            "flux.1-dev",
            "FluxTransformer2DModel",
            {"guidance_embeds": True},
            "16x128x128",
            _flux(128),
            ("flux", "flux-dev", "flux.1-schnell"),
        )
    )
    return rows  # fmt: skip


_TEXT = {"vocab_size": 49_408, "max_position_embeddings": 77}


def _text_encoders() -> list[tuple[str, dict[str, Any]]]:
    def size(width: int, layers: int, heads: int) -> dict[str, Any]:
        return {
            **_TEXT, "hidden_size": width, "num_hidden_layers": layers,
            "num_attention_heads": heads, "intermediate_size": 4 * width,
        }  # fmt: skip

    return [
        ("stable-diffusion-1.5-text", size(768, 12, 12)),
        ("stable-diffusion-2.1-text", size(1024, 23, 16)),
        ("sdxl-text-2", size(1280, 32, 20)),
    ]


def diffusion_variants() -> list[Variant]:
    """One denoising step of each, the decoders of latents, and the encoders of prompts."""
    found = [
        Variant(
            library="diffusers", name=name, input=shape, sample="step", data="tensor",
            aliases=aliases,
            subject=partial(Denoiser, model, config, takes),
        )
        for name, model, config, shape, takes, aliases in _denoisers()
    ]  # fmt: skip
    for name, sides in (("stable-diffusion-1.5-vae", (64, 96)), ("sdxl-vae", (128,))):
        found += [
            Variant(
                library="diffusers", name=name, input=f"4x{side}x{side}", sample="image",
                data="tensor", aliases=("sd-vae",) if side == 64 else (),
                subject=partial(Denoiser, "AutoencoderKL", _VAE, {"z": (4, side, side)}, True),
            )
            for side in sides
        ]  # fmt: skip
    found += [
        Variant(
            library="diffusers", name=name, input="seq:77", sample="sequence", data="tokens",
            subject=partial(Encoder, "CLIPTextModel", config, {"input_ids": (77,)}),
        )
        for name, config in _text_encoders()
    ]  # fmt: skip
    return found
