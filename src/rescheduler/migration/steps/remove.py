"""Removing a pod that has ended: there is no copy, no target, and no disruption.

The lifecycle walks these two steps for the method `remove`. The pod is deleted by its UID, so that a new pod of its
name is never hit; then the step waits for its finalizers: a Job's controller counts its pods by one. A replacement is
the controller's business. Nothing is labelled, so there is nothing to undo.
"""

from __future__ import annotations

from rescheduler.migration import commands
from rescheduler.migration.observation import StepContext, has_finished, is_terminating
from rescheduler.migration.steps.common import Do, Done, GiveUp, Outlook, Step, Wait


class Remove(Step):
    """Deletes the pod, as long as it has ended."""

    def look(self, context: StepContext) -> Outlook:
        """Done when the pod is going, or gone."""
        original = context.original
        if original is None or is_terminating(original):
            return Done()
        phase = original.get("status", {}).get("phase", "")
        if not has_finished(original):
            return GiveUp(f"it has not ended ({phase or 'no phase'}): only pods that have are removed", retry=False)
        return Do((commands.delete(original, f"remove it: it has ended ({phase})"),))


class AwaitRemoved(Step):
    """Waits until the pod is gone."""

    def look(self, context: StepContext) -> Outlook:
        """Done when the pod is gone, or another pod has its name."""
        original = context.original
        if original is None:
            return Done()
        held = ", ".join(original["metadata"].get("finalizers") or ())
        return Wait(f"it is being deleted{f', held by its finalizers: {held}' if held else ''}")
