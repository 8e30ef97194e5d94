# syntax=docker/dockerfile:1
# Three stages: `packages` holds what a server imports, `model` builds the embedding model with torch and is
# thrown away, the last one serves. Build without the model (--build-arg MODEL=none) where KB_MODEL_DIR is mounted.
ARG PYTHON=3.11
ARG MODEL=built

FROM python:${PYTHON}-slim-bookworm AS packages
COPY requirements-serve.lock /tmp/
RUN python -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r /tmp/requirements-serve.lock \
    && /opt/venv/bin/python -m compileall -q /opt/venv

FROM python:${PYTHON}-slim-bookworm AS model-built
COPY requirements.txt /tmp/
# torch first and alone: pip takes the CPU build where PIP_FIND_LINKS or PIP_EXTRA_INDEX_URL offers one.
RUN pip install --no-cache-dir "$(grep '^torch==' /tmp/requirements.txt)" \
    && pip install --no-cache-dir -r /tmp/requirements.txt
COPY . /app
WORKDIR /app
RUN KB_MODEL_DIR=/models python manage.py build_model

FROM python:${PYTHON}-slim-bookworm AS model-none
RUN mkdir /models

FROM model-${MODEL} AS model

FROM python:${PYTHON}-slim-bookworm
LABEL org.opencontainers.image.title="kbplatform" \
      org.opencontainers.image.description="Self-hosted, multi-tenant knowledge platform on Django and PostgreSQL"
RUN groupadd --gid 10001 kbplatform && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent kbplatform
COPY --from=packages /opt/venv /opt/venv
COPY --from=model /models /models
COPY . /app
WORKDIR /app
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 DJANGO_SETTINGS_MODULE=kbplatform.settings KB_MODEL_DIR=/models
RUN python -m compileall -q /app
USER 10001:10001
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz', timeout=4)"]
CMD ["uvicorn", "kbplatform.asgi:application", "--host", "0.0.0.0", "--port", "8000", "--loop", "uvloop", "--http", "httptools", "--ws", "none", "--no-access-log", "--no-server-header", "--timeout-graceful-shutdown", "30"]
