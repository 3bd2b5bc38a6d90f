"""`make demo`: a small Kubernetes in a process, out of balance, and the plan for it. Ctrl-C ends it."""

import signal
import subprocess
import sys
from pathlib import Path

SIZES = ["--nodes", "3", "--pods", "100", "--late-nodes", "3"]


def main() -> None:
    """Start the cluster, wait until it is filled, plan it, and let people play."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    command = [sys.executable, "-u", "-m", "rescheduler.embedded", *SIZES]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as cluster:
        try:
            kubeconfig = filled(cluster)
            # Pods that are younger than a minute are left alone, unless one says otherwise.
            plan = ["rescheduler", "plan", "--kubeconfig", kubeconfig, "--min-pod-age", "0s"]
            print(f"\n$ {' '.join(plan)}", flush=True)
            subprocess.run([Path(sys.executable).with_name(plan[0]), *plan[1:]], check=True)
            print("\nIn another terminal, with KUBECONFIG as above: kubectl get pods -o wide, rescheduler explain POD")
            print("Ctrl-C ends it.", flush=True)
            cluster.wait()
        except KeyboardInterrupt:
            print("\nended")
        finally:
            cluster.terminate()


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
