"""How fast the broker core is without any I/O, and how fast a start is.

`make bench-core` runs it.
"""

import argparse
import gc
import random
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from figures import Figures
from leadsman.wire.capabilities import CapabilityConfig
from leadsman_broker.core import commands as c
from leadsman_broker.core.core import Core
from leadsman_broker.core.rows import Loaded, Stored
from leadsman_broker.store.sqlite import SqliteStore

NAMESPACE = "bench"
CAPABILITY = "llm"


report = Figures("core").report


def rss_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


def step(core: Core, commands: list[c.Command], now: float, rand: random.Random) -> Any:
    core.needs(commands)
    return core.step(commands, Loaded(), now, rand)


def filled(queued: int, rand: random.Random, tenants: int = 0) -> Core:
    core = Core(Stored(tasks=[]), 0.0, rand)
    rules = CapabilityConfig(name=CAPABILITY, max_depth=10_000_000, max_slots=400 if tenants else None)
    step(core, [c.Configure(NAMESPACE, 1, (rules,))], 0.0, rand)
    for first in range(0, queued, 1000):
        step(core, [new_tasks(1000, tenants, first)], 0.0, rand)
    return core


def new_tasks(count: int, tenants: int, first: int = 0) -> c.Enqueue:
    """Return a batch over three priorities, and over so many tenants; 0: without one."""
    return c.Enqueue(
        NAMESPACE,
        tuple(
            c.NewTask(CAPABILITY, priority=number % 3, tenant=f"t{number % tenants}" if tenants else "")
            for number in range(first, first + count)
        ),
    )


def lifecycles(
    core: Core, count: int, batch: int, workers: int, rand: random.Random, *, tenants: int = 0
) -> tuple[float, float]:
    """Run lifecycles in batches as a busy server sees them; return tasks per second, and per second of CPU."""
    who = [c.Worker(NAMESPACE, f"pod-{number}", "1") for number in range(workers)]
    news = [new_tasks(batch, tenants, first) for first in range(0, max(1, tenants), batch)]
    began = time.perf_counter()
    cpu_began = time.process_time()
    done = 0
    call = 0
    while done < count:
        now = 1.0 + done * 1e-5
        call += 1
        worker = who[call % workers]
        ask = c.Lease(call, worker, (CAPABILITY,), batch, batch, f"a{call}")
        answers = step(core, [news[call % len(news)], ask], now, rand).answers
        acks: list[c.Command] = [c.Ack(NAMESPACE, lease.token, b"null") for lease in answers[0].leases]
        step(core, acks, now, rand)
        done += len(acks)
    return done / (time.perf_counter() - began), done / (time.process_time() - cpu_began)


def load(queued: int, rand: random.Random) -> None:
    """Measure a start: rows from a real file into a core that can serve."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder))
        core = Core(store.load(), 0.0, rand)
        rules = CapabilityConfig(name=CAPABILITY, max_depth=10_000_000)
        store.commit(step(core, [c.Configure(NAMESPACE, 1, (rules,))], 0.0, rand).changes)
        payload = b'"' + b"x" * 1022 + b'"'
        batch = c.Enqueue(NAMESPACE, tuple(c.NewTask(CAPABILITY, payload) for _ in range(1000)))
        began = time.perf_counter()
        for _ in range(queued // 1000):
            store.commit(step(core, [batch], 0.0, rand).changes)
        seconds = time.perf_counter() - began
        report(
            "core_and_store_enqueue_per_s", queued / seconds, "1/s", queued=queued, batch=1000, payload_bytes=1024
        )
        store.close()
        del core
        began = time.perf_counter()
        store = SqliteStore(Path(folder))
        core = Core(store.load(), 1.0, rand)
        seconds = time.perf_counter() - began
        depth = len(core.state.tasks)
        report("core_load_1m_s", seconds, "s", queued=depth, store="sqlite", page_cache="warm")
        store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queued", type=int, default=1_000_000)
    parser.add_argument("--lifecycles", type=int, default=60_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rand = random.Random(1)
    gc.disable()

    before = rss_mib()
    began = time.perf_counter()
    core = filled(options.queued, rand)
    seconds = time.perf_counter() - began
    report("core_enqueue_per_s", options.queued / seconds, "1/s", queued=options.queued, batch=1000)
    report("core_rss_mib", rss_mib() - before, "MiB", queued=options.queued)
    for batch in (1, 50):
        rates = [lifecycles(core, options.lifecycles, batch, 32, rand) for _ in range(options.repeats)]
        name = "core_lifecycle_per_s_1m" if batch == 50 else "core_lifecycle_single_per_s_1m"
        report(
            name,
            statistics.median(rate for rate, _ in rates),
            "1/s",
            queued=options.queued,
            batch=batch,
            best=round(max(rate for rate, _ in rates)),
            per_cpu_second=round(statistics.median(rate for _, rate in rates)),
        )
    del core
    tenants = 10_000
    core = filled(options.queued // 10, rand, tenants)
    rate, per_cpu_second = lifecycles(core, options.lifecycles, 50, 32, rand, tenants=tenants)
    report(
        "core_lifecycle_per_s_10k_tenants",
        rate,
        "1/s",
        queued=options.queued // 10,
        batch=50,
        tenants=tenants,
        tenant_cap=100,
        per_cpu_second=round(per_cpu_second),
    )
    del core
    load(options.queued, rand)


if __name__ == "__main__":
    main()
