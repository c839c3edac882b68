# The sidecar: the `serve` extra and the released models, on Debian's own Python. `make image` builds it.

FROM docker.io/library/debian:bookworm-slim AS build

RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3-venv=3.11.* \
    && rm -rf /var/lib/apt/lists/* \
    && python3 -m venv /opt/pilotfish

# Where pip looks, for machines that reach no public registry: --build-arg PIP_INDEX_URL=... None of it stays in the image.
ARG PIP_INDEX_URL
ARG PIP_FIND_LINKS
ARG PIP_CERT

WORKDIR /src
ENV PIP_CONSTRAINT=/src/constraints.txt PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

# The libraries first: they change seldom, so that their layer is kept when our code changes.
COPY pyproject.toml constraints.txt ./
RUN python3 -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
        print(*project['dependencies'], *project['optional-dependencies']['serve'], sep='\n')" > requirements.txt \
    && /opt/pilotfish/bin/pip install --requirement requirements.txt

# Left out: tests of libraries, and the asynchronous half of the Kubernetes client (60 MB), which nothing of ours loads.
COPY . .
RUN /opt/pilotfish/bin/pip install --no-deps . \
    && /opt/pilotfish/bin/pip uninstall --yes pip setuptools \
    && find /opt/pilotfish -type d -name tests -prune -exec rm -rf {} + \
    && rm -rf /opt/pilotfish/lib/python3.11/site-packages/kubernetes/aio


FROM docker.io/library/debian:bookworm-slim

RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3=3.11.* \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt \
    && groupadd --gid 10001 pilotfish \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin pilotfish

COPY --from=build /opt/pilotfish /opt/pilotfish

ENV PATH=/opt/pilotfish/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s CMD ["python", "-m", "serving.healthcheck"]
ENTRYPOINT ["pilotfish"]
CMD ["serve"]
