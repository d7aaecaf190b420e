# The service alone: no torch, no AWS SDK. Data is kept in the volume /data.
FROM python:3.11-slim

ENV PIP_NO_CACHE_DIR=1 PYTHONUNBUFFERED=1 \
    SHARDWISE_DATABASE_URL=sqlite:////data/shardwise.db \
    SHARDWISE_HOST=0.0.0.0

WORKDIR /src
COPY pyproject.toml README.md ./
COPY advisor advisor
COPY app app
COPY trainer trainer
COPY templates templates
COPY migrations migrations
RUN pip install '.[postgres]' && rm -rf /src \
    && useradd --system --create-home shardwise \
    && install -d -o shardwise /data

WORKDIR /data
USER shardwise
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=15s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
CMD ["shardwise", "serve"]
