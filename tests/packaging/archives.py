"""What the archives of a release are called."""

from __future__ import annotations

from rescheduler import __version__

STEM = f"kube_rescheduler-{__version__}"
DEMO_STEM = f"kube_rescheduler_demo-{__version__}"
WHEEL, SDIST = f"{STEM}-py3-none-any.whl", f"{STEM}.tar.gz"
DEMO_WHEEL, DEMO_SDIST = f"{DEMO_STEM}-py3-none-any.whl", f"{DEMO_STEM}.tar.gz"
