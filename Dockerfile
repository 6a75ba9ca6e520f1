# The image of `compose.yaml`'s Dagster services. Never built where it was written: there is no container engine there.
FROM python:3.11-slim
WORKDIR /app
COPY requirements/runtime.txt requirements/runtime.in requirements/
RUN pip install --no-cache-dir --require-hashes -r requirements/runtime.txt
COPY . .
RUN pip install --no-cache-dir --no-deps --editable . \
 && useradd --create-home backlinks \
 && install -d -o backlinks /var/lib/dagster \
 && install -o backlinks dagster.yaml /var/lib/dagster/dagster.yaml
USER backlinks
