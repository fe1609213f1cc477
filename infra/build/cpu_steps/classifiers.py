"""The torchvision classifiers whose operations are known, each as an own network of its name:
`python -m advisor.infra.build.campaign cpu --brief --networks infra/build/cpu_steps/classifiers.py:resnet18`.
"""

from __future__ import annotations

from functools import partial

from advisor.models.performance.networks import bundled_networks
from advisor.models.zoo.building import build_torchvision

globals().update({name: partial(build_torchvision, name) for name in bundled_networks().names})
