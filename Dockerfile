# One server: all its state is in the Postgres and the Valkey that the environment names, so any number may run.
FROM python:3.13-slim AS build
WORKDIR /build
COPY requirements requirements
RUN python -m venv /opt/warploom \
 && /opt/warploom/bin/pip install --no-cache-dir --require-hashes -r requirements/base.txt \
 && pip install --no-cache-dir --require-hashes -r requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY skills skills
COPY dashboard dashboard
COPY demo demo
COPY scenarios scenarios
COPY migrations migrations
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir wheels . \
 && /opt/warploom/bin/pip install --no-cache-dir --no-deps wheels/*.whl

FROM python:3.13-slim
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/warploom --shell /usr/sbin/nologin warploom
COPY --from=build /opt/warploom /opt/warploom
ENV PATH=/opt/warploom/bin:$PATH \
    WARPLOOM_HOME=/var/lib/warploom \
    WARPLOOM_BIND=0.0.0.0 \
    WARPLOOM_PORT=8765
USER warploom
WORKDIR /var/lib/warploom
EXPOSE 8765
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
  CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f'http://127.0.0.1:{os.environ[\"WARPLOOM_PORT\"]}/health', timeout=4)"]
CMD ["warploom", "serve"]
