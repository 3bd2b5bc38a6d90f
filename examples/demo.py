"""`make demo`: a small Kubernetes in a process, out of balance; its plan, and the plan carried out. Ctrl-C ends it."""

import signal
import subprocess
import sys
from pathlib import Path

SIZES = ["--nodes", "3", "--pods", "60", "--late-nodes", "3"]
# Pods that are younger than a minute are left alone, unless one says otherwise; and ten moves a plan would not do here.
EAGER = ["--min-pod-age", "0s", "--max-reschedule-pods", "unlimited"]


def main() -> None:
    """Start the cluster, wait until it is filled, plan it, carry the plan out, and let people play."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    command = [sys.executable, "-u", "-m", "rescheduler.embedded", *SIZES]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as cluster:
        try:
            kubeconfig = filled(cluster)
            show(kubeconfig, "plan", *EAGER)
            show(kubeconfig, "run", "--once", *EAGER)
            show(kubeconfig, "migrations")
            show(kubeconfig, "plan", *EAGER)
            print(
                "\nIn another terminal, with KUBECONFIG as above: kubectl get pods -o wide, rescheduler run, and while"
            )
            print("it runs: rescheduler move POD, rescheduler maintenance start node-0")
            print("Ctrl-C ends it.", flush=True)
            cluster.wait()
        except KeyboardInterrupt:
            print("\nended")
        finally:
            cluster.terminate()


def show(kubeconfig: str, *command: str) -> None:
    """Run one of our commands as a person would."""
    print(f"\n$ rescheduler {' '.join(command)}", flush=True)
    program = Path(sys.executable).with_name("rescheduler")
    subprocess.run([program, command[0], "--kubeconfig", kubeconfig, *command[1:]], check=True)


def filled(cluster: "subprocess.Popen[str]") -> str:
    """The path of its kubeconfig, as soon as all pods and nodes are there."""
    kubeconfig = ""
    for line in cluster.stdout or ():
        print(line, end="", flush=True)
        if line.startswith("export KUBECONFIG="):
            kubeconfig = line.strip().partition("=")[2]
        if "all is there" in line:
            return kubeconfig
    sys.exit("the cluster ended before it was filled")


if __name__ == "__main__":
    main()
