"""The networks that are measured.

`advisor.models.zoo.networks` needs no torch; what builds or runs a network imports it. This package needs
only the standard library, torch, torchvision (timm for one network) and the product's words, so it runs on a
bare GPU box. Nothing is imported here: an answer asks for names alone. docs/reference/networks.md has the
contract."""
