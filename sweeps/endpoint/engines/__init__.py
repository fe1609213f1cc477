"""Engines that this machine starts itself: vLLM, llama.cpp's server, `transformers serve`."""
