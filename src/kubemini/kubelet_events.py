"""What kubelets tell about pods in Events, for `kubectl describe` and for people who look for the cause of something.

`kubelet` calls it after each step. The same thing said of the same pod counts up, so a pod that crashes for a day has
three Events, not thousands.
"""

from __future__ import annotations

from kubemini.events import EventRecorder
from kubemini.kubelet_containers import CRASH_LOOP
from kubemini.kubelet_failures import full_name, pull_error
from kubemini.kubelet_steps import Action
from kubemini.refusals import Json
from kubemini.simulation import Behaviour, Mode
from kubemini.store import Store


class KubeletEvents:
    """The kubelets' part of the Events."""

    def __init__(self, store: Store) -> None:
        self._recorder = EventRecorder(store, "kubelet")

    def complain(self, pod: Json, problem: str) -> None:
        """An annotation that tells the pod how to behave makes no sense."""
        self._recorder.say(pod, "SimulationNotUnderstood", problem, warning=True)

    def killing(self, pod: Json) -> None:
        """The pod was deleted, and its containers are told to stop."""
        for container in pod["status"].get("containerStatuses", ()):
            if "running" in container["state"]:
                self._recorder.say(pod, "Killing", f"Stopping container {container['name']}")

    def rejected(self, pod: Json, reason: str, message: str) -> None:
        """The pod was turned away."""
        self._recorder.say(pod, reason, message, warning=True)

    def tell(self, action: Action, pod: Json, how: Behaviour, at: str) -> None:
        """What has been done about a pod, and when."""
        match action:
            case Action.RUN:
                states = [container["state"] for container in pod["status"]["containerStatuses"]]
                if any(state.get("running", {}).get("startedAt") == at for state in states):
                    self._recorder.say(pod, "Started", "Container started")
                if how.fails is Mode.NEVER_READY:
                    self._recorder.say(pod, "Unhealthy", "Readiness probe failed: told to", warning=True)
            case Action.CRASH:
                self._crashed(pod)
            case Action.PULL:
                for container in pod["spec"]["containers"]:
                    image = container["image"]
                    why = f'Failed to pull image "{image}": {pull_error(image)}'
                    self._recorder.say(pod, "Failed", why, warning=True)
            case Action.BACK_OFF:
                for container in pod["spec"]["containers"]:
                    self._recorder.say(pod, "BackOff", f'Back-off pulling image "{container["image"]}"')
            case Action.FAIL:
                self._recorder.say(pod, pod["status"]["reason"], pod["status"]["message"], warning=True)
            case Action.REJECT:
                self.rejected(pod, pod["status"]["reason"], pod["status"]["message"].removeprefix("Pod was rejected: "))
            case _:
                pass  # a real kubelet has nothing to say about these either

    def _crashed(self, pod: Json) -> None:
        for container in pod["status"]["containerStatuses"]:
            if container["state"].get("waiting", {}).get("reason") == CRASH_LOOP:
                message = f"Back-off restarting failed container {container['name']} in pod {full_name(pod)}"
                self._recorder.say(pod, "BackOff", message, warning=True)
