"""`python -m leadsman.cli`."""

from leadsman.cli import main

main()
