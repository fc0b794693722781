# One image: the broker, the operator and the base of worker images.
#
#   make image          builds it from wheels made outside (wheels/), without a network
#   docker build .      works from a plain checkout too: without wheels/ they are made here, pinned by requirements.lock
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
COPY . /source
RUN set -eu; \
    python3 -m venv /opt/leadsman; \
    cd /source; \
    if [ ! -d wheels ]; then \
        sed -e 's/ \\$//' -e '/^ *--hash=/d' requirements.lock > pins.txt; \
        /opt/leadsman/bin/pip wheel --no-cache-dir --wheel-dir wheels --constraint pins.txt '.[broker,operator]'; \
    fi; \
    /opt/leadsman/bin/pip install --no-cache-dir --no-compile --no-index --find-links wheels 'leadsman[broker,operator]'; \
    # Nothing in a running pod uses pip or may write bytecode: the one is removed, the other made now.
    /opt/leadsman/bin/pip uninstall --yes --quiet pip setuptools; \
    python3 -m compileall -q --invalidation-mode unchecked-hash /opt/leadsman/lib

FROM ${BASE}
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="leadsman" \
      org.opencontainers.image.description="Broker, operator and worker runtime of Leadsman" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/leadsman /opt/leadsman
ENV PATH=/opt/leadsman/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# Numeric, so that the kubelet can see that it is not root; no home and nothing writable but what is mounted.
USER 65532:65532
WORKDIR /
CMD ["leadsman", "--help"]
