"""`python -m leadsman_broker.cli`."""

from leadsman_broker.cli import main

main()
