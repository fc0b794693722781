"""The work that the demo submits."""

from leadsman import TaskSubmit

BROWSER_TASKS = 20
LLM_TASKS = 36
PAGES = 4
SECONDS_PER_PAGE = 1.5


def batch() -> list[TaskSubmit]:
    """Tasks of two capabilities: steps that wait, as a browser's and a model's do."""
    browser = {"pages": PAGES, "seconds_per_page": SECONDS_PER_PAGE}
    prompt = {"prompt": "Summarise what was found.", "seconds": 3}
    return [TaskSubmit(capability="browser", payload=browser) for _ in range(BROWSER_TASKS)] + [
        TaskSubmit(capability="llm", payload=prompt) for _ in range(LLM_TASKS)
    ]
