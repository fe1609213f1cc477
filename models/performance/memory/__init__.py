"""Memory that a workload needs: on the GPU (with bounds), and on the host.

GPU memory is replayed, not guessed: `advisor.models.zoo.live_memory` follows a step without computing it and
reads from torch's allocator how much it takes. `steps` has the result for every network that ships and adds
the optimiser's state, and `peak` the CUDA context and the bounds."""
