"""`python -m faulty_disk serve ...`."""

from faulty_disk import run
from leadsman_broker.cli import main

run(main)
