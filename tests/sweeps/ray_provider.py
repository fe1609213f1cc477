"""Ray's provider of emulated nodes, for node types that name their memory."""

from functools import partial

from ray._private import parameter
from ray.autoscaler._private.fake_multi_node.node_provider import FakeMultiNodeProvider


class EmulatedNodes(FakeMultiNodeProvider):
    """A node has the memory of its type: Ray's provider would hand it on as a resource of the
    user's, which Ray refuses."""

    def create_node_with_resources_and_labels(self, node_config, tags, count, resources, labels):
        left, usual = dict(resources), parameter.RayParams
        parameter.RayParams = partial(usual, memory=left.pop("memory", None))
        try:
            super().create_node_with_resources_and_labels(node_config, tags, count, left, labels)
        finally:
            parameter.RayParams = usual
