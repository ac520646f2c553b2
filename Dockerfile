# hodgeformer on CPU, as a user who owns nothing but the folder that is mounted at /work:
#   docker build --tag hodgeformer .
#   docker run --rm --user "$(id -u)" --volume "$PWD:/work" hodgeformer predict human scan.stl --out out
#   docker run --rm --user "$(id -u)" --volume "$PWD:/work" --publish 127.0.0.1:8765:8765 \
#     hodgeformer view human scans --host 0.0.0.0 --port 8765 --no-browser
# The ordinary torch brings its CUDA libraries, about 5 GB. For the CPU build, give the index that pytorch.org names for it:
#   docker build --build-arg PIP_EXTRA_INDEX_URL=ADDRESS --tag hodgeformer .

FROM python:3.11-slim AS build
ARG PIP_EXTRA_INDEX_URL=
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
COPY configs configs
RUN python -m venv /opt/hodgeformer \
 && /opt/hodgeformer/bin/pip install --no-cache-dir --constraint constraints.txt ".[view]"

FROM python:3.11-slim
COPY --from=build /opt/hodgeformer /opt/hodgeformer
RUN useradd --create-home hodgeformer
ENV PATH=/opt/hodgeformer/bin:$PATH HODGEFORMER_OFFLINE=1
# Compiled once, for processors like this one; where nothing can be written, a start copies it in place of compiling.
RUN hodgeformer doctor --warm
USER hodgeformer
WORKDIR /work
ENTRYPOINT ["hodgeformer"]
CMD ["doctor"]
