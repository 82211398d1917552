"""CUDA: lowered kernels as readable C++, and the code that NVRTC makes of it."""
