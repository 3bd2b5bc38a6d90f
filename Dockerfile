# The image of kube-rescheduler: `make image`, or
#   docker build --build-arg SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) --build-arg COMMIT=$(git rev-parse HEAD) .
# Packages are those of requirements.lock, by their hashes; the last stage has neither compiler nor pip, and runs as a
# user that is not root on a root that may be read-only. tests/unit/test_image.py runs these steps without an engine.

# A digest, such as @sha256:…, pins the base to the byte. Without one Debian's security updates come with each build,
# but only while this is the newest patch of Python: older ones are not built anew. docs/releasing.md has the step.
ARG PYTHON_VERSION=3.13.15-slim-bookworm
ARG PYTHON_DIGEST=""

FROM python:${PYTHON_VERSION}${PYTHON_DIGEST} AS build
ARG SOURCE_DATE_EPOCH=0
ARG COMMIT=""
# Both make what is built the same bytes each time: the time in archives, and the order of sets in compiled modules.
ENV SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH} \
    PYTHONHASHSEED=0 \
    PYTHONDONTWRITEBYTECODE=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_NO_COMPILE=1 \
    PIP_ONLY_BINARY=:all: \
    PIP_ROOT_USER_ACTION=ignore \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    RESCHEDULER_COMMIT=${COMMIT}
WORKDIR /build

# What changes seldom comes first, so that engines have it in their cache.
COPY release/runtime.lock release/build.lock ./release/
RUN python -m venv --without-pip /opt/rescheduler \
 && python -m pip --python /opt/rescheduler/bin/python install --no-deps --require-hashes -r release/runtime.lock
RUN python -m venv /tools \
 && /tools/bin/python -m pip install --no-deps --require-hashes -r release/build.lock

COPY pyproject.toml README.md LICENSE ./
COPY release/build_hook.py release/readme_hook.py ./release/
COPY src/rescheduler ./src/rescheduler
RUN /tools/bin/python -m hatchling build -t wheel -d /wheels \
 && python -m pip --python /opt/rescheduler/bin/python install --no-deps --no-index --find-links /wheels kube-rescheduler \
 && python -m compileall -q --invalidation-mode unchecked-hash /opt/rescheduler/lib

FROM python:${PYTHON_VERSION}${PYTHON_DIGEST}
ARG COMMIT=""
ARG VERSION=""
LABEL org.opencontainers.image.title="kube-rescheduler" \
      org.opencontainers.image.description="Moves Kubernetes pods to better nodes: safely, with reasons, and with the plan shown first." \
      org.opencontainers.image.url="https://github.com/kube-rescheduler/kube-rescheduler" \
      org.opencontainers.image.source="https://github.com/kube-rescheduler/kube-rescheduler" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}"
RUN python -m pip uninstall --quiet --yes --root-user-action=ignore pip
COPY --from=build /opt/rescheduler /opt/rescheduler
# Modules are compiled already, and nothing is written. Users without an entry in /etc/passwd need a HOME.
ENV PATH=/opt/rescheduler/bin:${PATH} \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/
USER 65532:65532
ENTRYPOINT ["/opt/rescheduler/bin/rescheduler"]
CMD ["--help"]
