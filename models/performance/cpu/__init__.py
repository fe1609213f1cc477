"""How fast a CPU computes a network: physical first, fitted on measured steps."""

from models.performance.cpu.machines import vector_factor
from models.performance.cpu.rates import CpuRates, bundled_cpu_rates

__all__ = ["CpuRates", "bundled_cpu_rates", "vector_factor"]
