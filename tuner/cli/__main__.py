"""``python -m tuner.cli`` is the command ``loopsmith``."""

from .entry import main

if __name__ == "__main__":
    main()
