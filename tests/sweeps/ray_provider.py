"""Ray's provider of emulated nodes, for node types that name their memory."""

from ray.autoscaler._private.fake_multi_node.node_provider import FakeMultiNodeProvider


class EmulatedNodes(FakeMultiNodeProvider):
    """A node finds its memory by itself: Ray's provider would declare it a second time."""

    def create_node_with_resources_and_labels(self, node_config, tags, count, resources, labels):
        """`count` nodes of that type."""
        left = {name: amount for name, amount in resources.items() if name != "memory"}
        super().create_node_with_resources_and_labels(node_config, tags, count, left, labels)
