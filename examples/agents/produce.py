"""Send pages through the agent and wait for the run: `python produce.py http://127.0.0.1:8901/page.html ...`"""

import sys

from leadsman import SyncClient


def main(urls: list[str]) -> None:
    with SyncClient() as client:
        run = client.run(max_cost="1.00", max_tasks=3 * len(urls))
        for url in urls:
            run.submit("browser", {"url": url})
        view = run.wait(timeout_seconds=600)
        print(f"the run {run.id} is {view.state}, for {run.cost().tokens} tokens")
        for task in client.tasks(capability="code", state="completed"):
            if task.result["run"] == run.id:
                print(task.result["output"].strip())


if __name__ == "__main__":
    main(sys.argv[1:])
