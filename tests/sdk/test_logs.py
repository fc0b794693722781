"""A worker's log: every record a line of JSON with the attempt's fields, and none of them able to fail a task."""

import json
import subprocess
import sys

import pytest

BEGIN = """
import logging, os, sys
from leadsman.context import TaskFacts
from leadsman.logs import bind_attempt, configure, get_logger

early = get_logger("early")
configure({format!r}, "INFO")
log = get_logger("leadsman.task")
bind_attempt(TaskFacts("t-1", "agents", "llm", attempt=2, tenant="acme"))
"""


def said(program, log_format="json", **options):
    command = [sys.executable, "-c", BEGIN.format(format=log_format) + program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, **options)
    return done.stderr.splitlines()


def test_every_record_carries_the_attempt_whoever_wrote_it():
    lines = said("""
log.info("ours", words=3)
early.warning("from before the settings")
logging.getLogger("library").warning("theirs %d", 7, extra={"more": 1})
log.debug("too fine")
logging.getLogger("library").debug("too fine")
""")
    ours, early, theirs = (json.loads(line) for line in lines)
    attempt = {"task": "t-1", "attempt": 2, "capability": "llm", "tenant": "acme"}
    for record in (ours, early, theirs):
        assert record | attempt == record
        assert record["timestamp"].endswith("Z")
    assert (ours["event"], ours["level"], ours["logger"], ours["words"]) == ("ours", "info", "leadsman.task", 3)
    assert (early["level"], early["logger"]) == ("warning", "early")
    assert (theirs["event"], theirs["logger"], theirs["more"]) == ("theirs 7", "library", 1)


def test_an_exception_is_in_its_record():
    lines = said("""
for each in (log, logging.getLogger("library")):
    try:
        raise ValueError("no")
    except ValueError:
        each.exception("it failed")
""")
    for record in map(json.loads, lines):
        assert (record["event"], record["level"]) == ("it failed", "error")
        assert record["exception"][0]["exc_type"] == "ValueError"


@pytest.mark.parametrize(
    "value",
    ["{(1, 2): 3}", "object()", "'\\ud800'", "float('nan')", "circle", "Broken()", "b'bytes'"],
)
def test_what_is_no_json_is_shown_as_far_as_it_can_be_and_the_task_goes_on(value):
    lines = said(f"""
circle = []
circle.append(circle)
class Broken:
    def __repr__(self): raise RuntimeError
log.info("odd", value={value})
log.info("next")
""")
    assert [json.loads(line)["event"] for line in lines] == ["odd", "next"]


def test_a_log_that_cannot_be_written_is_lost_and_nothing_else():
    command = [
        sys.executable,
        "-c",
        BEGIN.format(format="json") + "os.close(2)\nlog.info('lost')\nprint('still here')",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "still here\n"


def test_a_person_gets_lines_to_read():
    (line,) = said('log.info("ours", words=3)', "console")
    for words in ("[info", "ours", "words", "task"):
        assert words in line
