"""What is measured and counted of programs for CUDA."""
