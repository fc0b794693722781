"""The work that the demo submits."""

from dataclasses import dataclass

from leadsman import TaskSubmit


@dataclass(frozen=True, slots=True)
class Batch:
    """Tasks of two capabilities: steps that wait, as a browser's and a model's do."""

    browser: int
    """Tasks."""
    llm: int
    pages: int
    """Of each browser task."""
    seconds_per_page: float
    seconds_per_answer: float

    def tasks(self) -> list[TaskSubmit]:
        """Return what is submitted."""
        browser = {"pages": self.pages, "seconds_per_page": self.seconds_per_page}
        prompt = {"prompt": "Summarise what was found.", "seconds": self.seconds_per_answer}
        return [TaskSubmit(capability="browser", payload=browser) for _ in range(self.browser)] + [
            TaskSubmit(capability="llm", payload=prompt) for _ in range(self.llm)
        ]


FULL = Batch(browser=20, llm=36, pages=4, seconds_per_page=1.5, seconds_per_answer=3)
QUICK = Batch(browser=12, llm=24, pages=4, seconds_per_page=0.5, seconds_per_answer=1)
"""For local mode, where workers start within a second."""
