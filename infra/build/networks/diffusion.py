"""Diffusion networks of diffusers with their public configurations; a sample is one denoising step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from msgspec import Struct

from advisor.infra.build.networks.encoders import Encoder
from advisor.infra.build.networks.variants import Variant

_SD = {"sample_size": 64, "cross_attention_dim": 768}
_SD2 = {"cross_attention_dim": 1024, "attention_head_dim": [5, 10, 20, 20], "use_linear_projection": True}
_SDXL = {
    "sample_size": 128,
    "block_out_channels": [320, 640, 1280],
    "cross_attention_dim": 2048,
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
    "transformer_layers_per_block": [1, 2, 10],
    "attention_head_dim": [5, 10, 20],
    "use_linear_projection": True,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 256,
    "projection_class_embeddings_input_dim": 2816,
}
_VAE = {
    "block_out_channels": [128, 256, 512, 512],
    "layers_per_block": 2,
    "latent_channels": 4,
    "down_block_types": ["DownEncoderBlock2D"] * 4,
    "up_block_types": ["UpDecoderBlock2D"] * 4,
}
_DIT = {
    "num_attention_heads": 16,
    "attention_head_dim": 72,
    "in_channels": 4,
    "out_channels": 8,
    "num_layers": 28,
    "patch_size": 2,
    "norm_type": "ada_norm_zero",
    "norm_elementwise_affine": False,
    "activation_fn": "gelu-approximate",
    "attention_bias": True,
    "num_embeds_ada_norm": 1000,
}
_PIXART = {
    "num_attention_heads": 16,
    "attention_head_dim": 72,
    "in_channels": 4,
    "out_channels": 8,
    "num_layers": 28,
    "cross_attention_dim": 1152,
    "caption_channels": 4096,
    "patch_size": 2,
    "attention_bias": True,
    "norm_elementwise_affine": False,
    "norm_type": "ada_norm_single",
}
_SD3 = {
    "sample_size": 128,
    "patch_size": 2,
    "in_channels": 16,
    "num_layers": 24,
    "attention_head_dim": 64,
    "num_attention_heads": 24,
    "joint_attention_dim": 4096,
    "caption_projection_dim": 1536,
    "pooled_projection_dim": 2048,
    "out_channels": 16,
    "pos_embed_max_size": 192,
}


class Denoiser(Struct, frozen=True):
    """A class of diffusers; `takes` has input sizes by name (`one.two`: `two` in the dictionary `one`).

    `decodes` says that the network is the decoder of an autoencoder."""

    model: str
    config: Mapping[str, Any]
    takes: Mapping[str, tuple[int, ...]]
    decodes: bool = False

    def build(self) -> Any:
        """Build the network."""
        import diffusers

        network = getattr(diffusers, self.model)(**self.config)
        if self.decodes:
            network.encoder = network.quant_conv = None
        return network

    def synthetic_batch(self, batch_size: int, device: str = "cpu") -> tuple[Any, Any]:
        """Make inputs and targets on the device."""
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
        """The network's outputs for the inputs."""
        if self.decodes:
            return network.decode(inputs["z"]).sample
        return network(**inputs, return_dict=False)[0]

    def training_loss(self, network: Any, inputs: Any, targets: Any) -> Any:
        """The mean squared distance from noise."""
        import torch

        del targets
        noise = self.forward(network, inputs)
        return torch.nn.functional.mse_loss(noise, torch.zeros_like(noise))


Sizes = dict[str, tuple[int, ...]]


def _unet(side: int, width: int) -> Sizes:
    return {"sample": (4, side, side), "timestep": (), "encoder_hidden_states": (77, width)}


def _xl(side: int) -> Sizes:
    return {**_unet(side, 2048), "added_cond_kwargs.text_embeds": (1280,), "added_cond_kwargs.time_ids": (6,)}


def _transformer(channels: int, side: int, **more: tuple[int, ...]) -> Sizes:
    return {"hidden_states": (channels, side, side), "timestep": (), **more}


def _flux(side: int) -> Sizes:
    tokens = (side // 2) ** 2
    return {
        "hidden_states": (tokens, 64),
        "encoder_hidden_states": (512, 4096),
        "pooled_projections": (768,),
        "timestep": (),
        "guidance": (),
        "img_ids": (tokens, 3),
        "txt_ids": (512, 3),
    }


class _Network(NamedTuple):
    """A denoiser: its configuration and its inputs as functions of the side of its latent."""

    name: str
    model: str
    sides: tuple[int, ...]
    config: Callable[[int], Mapping[str, Any]]
    takes: Callable[[int], Sizes]
    aliases: tuple[str, ...]
    channels: int = 4


# PixArt's larger network would also take the image's original size and ratio.
_PIXART_OF_SIDE = {128: {"use_additional_conditions": False}}
_UNET = "UNet2DConditionModel"
_DENOISERS = (
    _Network(
        "stable-diffusion-1.5",
        _UNET,
        (64, 96, 32),
        lambda _: _SD,
        lambda side: _unet(side, 768),
        (
            "stable-diffusion-v1-5",
            "stable-diffusion-1.4",
            "stable-diffusion",
            "sd-1.5",
            "sd15",
            "stable-diffusion-1.5-unet",
        ),
    ),
    _Network(
        "stable-diffusion-2.1",
        _UNET,
        (96, 64, 32),
        lambda _: _SD2,
        lambda side: _unet(side, 1024),
        ("stable-diffusion-2", "stable-diffusion-2.1-base", "sd-2.1", "sd21", "stable-diffusion-2.1-unet"),
    ),
    _Network(
        "sdxl",
        _UNET,
        (128, 64),
        lambda _: _SDXL,
        _xl,
        ("stable-diffusion-xl", "stable-diffusion-xl-base-1.0", "sdxl-unet"),
    ),
    *(
        _Network(
            "DiT-XL-2",
            "DiTTransformer2DModel",
            (side,),
            lambda side: {**_DIT, "sample_size": side},
            lambda side: _transformer(4, side, class_labels=()),
            ("dit-xl", "dit-xl/2", f"DiT-XL-2-{8 * side}"),
        )
        for side in (32, 64)
    ),
    _Network(
        "pixart-alpha",
        "PixArtTransformer2DModel",
        (64, 128),
        lambda side: {**_PIXART, "sample_size": side, **_PIXART_OF_SIDE.get(side, {})},
        lambda side: _transformer(4, side, encoder_hidden_states=(120, 4096)),
        ("pixart-xl-2", "pixart"),
    ),
    _Network(
        "stable-diffusion-3-medium",
        "SD3Transformer2DModel",
        (128, 64),
        lambda _: _SD3,
        lambda side: _transformer(16, side, encoder_hidden_states=(333, 4096), pooled_projections=(2048,)),
        ("sd3", "sd3-medium", "stable-diffusion-3"),
        channels=16,
    ),
    _Network(
        "flux.1-dev",
        "FluxTransformer2DModel",
        (128,),
        lambda _: {"guidance_embeds": True},
        _flux,
        ("flux", "flux-dev", "flux.1-schnell"),
        channels=16,
    ),
)
_TEXT = {"vocab_size": 49_408, "max_position_embeddings": 77}


def _text_encoders() -> list[tuple[str, dict[str, Any]]]:
    def size(width: int, layers: int, heads: int) -> dict[str, Any]:
        return {
            **_TEXT,
            "hidden_size": width,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "intermediate_size": 4 * width,
        }

    return [
        ("stable-diffusion-1.5-text", size(768, 12, 12)),
        ("stable-diffusion-2.1-text", size(1024, 23, 16)),
        ("sdxl-text-2", size(1280, 32, 20)),
    ]


def diffusion_variants() -> list[Variant]:
    """One denoising step of each network, the decoders of latents, and the encoders of prompts."""
    variants = [
        Variant(
            library="diffusers",
            name=entry.name,
            input=f"{entry.channels}x{side}x{side}",
            sample="step",
            data="tensor",
            aliases=entry.aliases,
            subject=partial(Denoiser, entry.model, entry.config(side), entry.takes(side)),
        )
        for entry in _DENOISERS
        for side in entry.sides
    ]
    for name, sides in (("stable-diffusion-1.5-vae", (64, 96)), ("sdxl-vae", (128,))):
        variants += [
            Variant(
                library="diffusers",
                name=name,
                input=f"4x{side}x{side}",
                sample="image",
                data="tensor",
                aliases=("sd-vae",) if side == 64 else (),
                subject=partial(Denoiser, "AutoencoderKL", _VAE, {"z": (4, side, side)}, True),
            )
            for side in sides
        ]
    variants += [
        Variant(
            library="diffusers",
            name=name,
            input="seq:77",
            sample="sequence",
            data="tokens",
            subject=partial(Encoder, "CLIPTextModel", config, {"input_ids": (77,)}),
        )
        for name, config in _text_encoders()
    ]
    return variants
