"""Memory that a workload needs: on the GPU (with its doubt), and on the host.

GPU memory is replayed, not guessed: `advisor.models.zoo.live_memory` follows a step without computing it and
asks torch's allocator what that takes. `table` has it for every network that ships, `steps` adds what the
optimiser holds, and `peak` the CUDA context and the doubt."""
