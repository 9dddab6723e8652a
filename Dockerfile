# One image for every part of Lahar: workers, agents, the command. docs/deployment.md says how to run it.

# Builds the environment; nothing of this stage but /opt/lahar reaches the image.
FROM python:3.11-slim-bookworm AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_NO_INPUT=1 \
    PIP_ROOT_USER_ACTION=ignore

WORKDIR /src
# What is locked comes first: these layers stay as they are until the lock changes.
COPY pyproject.toml requirements.lock ./
COPY deploy/locked.py deploy/
RUN python -m venv /opt/lahar \
    && python deploy/locked.py 'lahar[agents,kafka,telemetry]' > runtime.lock \
    && /opt/lahar/bin/python -m pip install --require-hashes --only-binary :all: --no-deps -r runtime.lock \
    && python deploy/locked.py setuptools > build.lock \
    && python -m pip install --require-hashes --only-binary :all: --no-deps -r build.lock

COPY LICENSE NOTICE README.md ./
COPY engine engine/
COPY lahar lahar/
COPY statemachines statemachines/
COPY streams streams/
RUN python -m pip wheel --no-deps --no-build-isolation --no-index --wheel-dir dist . \
    && /opt/lahar/bin/python -m pip install --no-deps --no-index dist/*.whl \
    && /opt/lahar/bin/python -m pip check

FROM python:3.11-slim-bookworm

COPY --from=build /opt/lahar /opt/lahar
# A name and a home, no shell; `lahar.toml` may be put into the home.
RUN useradd --uid 10001 --user-group --create-home --home-dir /var/lib/lahar --shell /usr/sbin/nologin lahar

ENV PATH=/opt/lahar/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    LAHAR_LOG_FORMAT=json
WORKDIR /var/lib/lahar
USER 10001:10001

EXPOSE 9100
STOPSIGNAL SIGTERM
# Whether the process is alive. Whether its shards are open and keep up is what /readyz and the alerts tell.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:9100/healthz', timeout=4)"]

ENTRYPOINT ["lahar"]
CMD ["worker", "--stage", "lifecycle", "--metrics", "0.0.0.0:9100"]
