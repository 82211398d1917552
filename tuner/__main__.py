"""``python -m tuner`` is the command ``loopsmith``."""

from .cli.main import main

if __name__ == "__main__":
    main()
