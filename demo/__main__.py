"""`python -m demo up` and `python -m demo down`: what `make demo` and `make demo-down` run."""

import argparse
import asyncio
import os
import shlex
import sys
from pathlib import Path

from rich.console import Console

from cluster import ClusterError, UnavailableError, doctor, engine
from demo import ground, local, memory, story, traces
from demo.ground import CLUSTER, Ground
from demo.installation import AGENTS, SYSTEM, Installation
from demo.programs import DemoError
from demo.screen import Screen


def main() -> int:
    """Run one command and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    upwards = commands.add_parser("up", help="run the whole story and leave the cluster up")
    upwards.add_argument("--quick", action="store_true", help="a shorter story; for local mode only")
    commands.add_parser("down", help="take down what `up` left")
    arguments = parser.parse_args()
    console = Console()
    try:
        return up(console, quick=arguments.quick) if arguments.command == "up" else down(console)
    except (DemoError, ClusterError) as error:
        console.print(f"The demo cannot go on: {error}", style="bold red", markup=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        console.print("Interrupted. `make demo-down` takes down what is up.")
        return 130


def up(console: Console, *, quick: bool) -> int:
    """Bring everything up, tell the story, print its closing line last."""
    screen = Screen(console)
    try:
        choice = choose()
    except UnavailableError as missing:
        return up_locally(screen, str(missing), quick=quick)
    if quick:
        raise DemoError(f"--quick is for local mode; set {ground.MODE_VARIABLE}=local")
    kind = choice.engine.kind
    for passed_over in choice.passed_over:
        screen.step(f"not used: {passed_over}")
    ground.require_images(choice.engine)
    screen.step(f"Kubernetes: {ground.KINDS[kind]}")
    place = ground.of(choice.engine)
    installation = Installation(place)
    left = memory.recall()
    if left is None or left.kubeconfig != str(place.kubeconfig):
        if kind == "kubeconfig":
            installation.refuse_what_is_there()
        left = memory.LeftUp(kind, str(place.kubeconfig), made_crds=not installation.had_crds())
        memory.remember(left)
    screen.step("images: Leadsman, and the demo's agents on top of it")
    images = ground.provide_images(place)
    screen.step("helm upgrade --install leadsman charts/leadsman")
    installation.install(images)
    screen.step("kubectl apply -f examples/demo")
    installation.apply_examples(images)
    outcome, told = asyncio.run(story.perform(place, images, installation, screen))
    screen.close(outcome, told)
    screen.plain(look_around(place))
    screen.plain(outcome.json_line())
    return 1 if outcome.broken_promises() else 0


def choose() -> engine.Choice:
    """Choose the cluster. Raises UnavailableError naming all that is missing, or that local mode is asked for."""
    wanted = os.environ.get(ground.MODE_VARIABLE, "")
    if wanted not in {"", "local"}:
        raise DemoError(f"{ground.MODE_VARIABLE} is {wanted!r}; the only value is local")
    if wanted:
        raise UnavailableError(f"{ground.MODE_VARIABLE} asks for it")
    choice = engine.choose(CLUSTER)
    if choice.engine.kind == "built":
        missing = list(dict.fromkeys(each for tier in doctor.examine() for each in tier.missing))
        if missing:
            raise UnavailableError("\n- ".join(["no cluster is possible here:", *choice.passed_over, *missing]))
    return choice


def up_locally(screen: Screen, missing: str, *, quick: bool) -> int:
    """Tell the same story in local mode, and say first that it is, and why."""
    because, *reasons = missing.split("\n- ")
    screen.step(f"local mode, processes in place of pods: {' '.join([because, '; '.join(reasons)]).strip()}")
    screen.step("leadsman dev -f examples/demo/capabilities.yaml -f examples/demo/pools.yaml --app handlers:app")
    outcome, told = asyncio.run(local.perform(screen, quick=quick))
    screen.close(outcome, told)
    screen.plain("Nothing was left running. The second line above, in examples/demo, does it by hand.")
    screen.plain(outcome.json_line())
    return 1 if outcome.broken_promises() else 0


def down(console: Console) -> int:
    """Take down what is up, and say so when something is left."""
    screen = Screen(console)
    left = memory.recall()
    if left is not None and left.kind == "kubeconfig":
        Installation(ground.of(engine.Named(Path(left.kubeconfig)))).remove(crds=left.made_crds)
        memory.forget()
        screen.step(f"nothing of the demo is left in the cluster of {left.kubeconfig}")
        return 0
    clusters = traces.ours()
    if left is not None and left.kind == "kind":
        engine.Kind(CLUSTER).down()
    engine.Built(CLUSTER).down()
    memory.forget()
    still = traces.left_of(clusters)
    for trace in still:
        screen.step(f"still there: {trace}")
    if not still:
        screen.step("no process, mount, network link, control group or file of the demo is left")
    return 1 if still else 0


def look_around(place: Ground) -> str:
    """Name the commands to see what is up, and the one to take it down."""
    lines = ["", "The cluster is up. To look around:"]
    lines.append(f"  export KUBECONFIG={shlex.quote(str(place.kubeconfig))}")
    if str(place.kubectl.parent) not in os.get_exec_path():
        lines.append(f"  export PATH={shlex.quote(str(place.kubectl.parent))}:$PATH")
    lines += [
        f"  kubectl -n {AGENTS} get workerpools,capabilities",
        f"  kubectl -n {AGENTS} describe workerpool browser",
        f"  kubectl -n {AGENTS} events --for workerpool/browser",
        "  kubectl explain workerpool.spec.scaling",
        f"  kubectl -n {SYSTEM} logs deployment/leadsman-operator",
        "To take it down, with everything in it:",
        "  make demo-down",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
