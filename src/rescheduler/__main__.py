"""`python -m rescheduler` is the command `rescheduler`."""

from rescheduler.cli.main import main

if __name__ == "__main__":
    main()
