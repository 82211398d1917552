"""``python -m tuner`` is the command ``loopsmith``."""

from .cli.entry import main

if __name__ == "__main__":
    main()
