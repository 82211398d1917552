"""Messages and services, as ``.proto`` files and the Python code that :mod:`runners.rpc.generate` makes of them."""
