# The control plane, from the files of a release:
#   scripts/build-release dist && docker build -f deploy/container/control-plane.Dockerfile -t navarch dist
#   docker run -d --name navarch --restart always --read-only --cap-drop ALL -p 50051:50051 -p 50052:50052 \
#     -v ./navarch.yaml:/etc/navarch/navarch.yaml:ro -v navarch:/var/lib/navarch \
#     -e NAVARCH_AUTH_TOKEN=... navarch
ARG PYTHON_IMAGE=python:3.12-slim
FROM ${PYTHON_IMAGE} AS build
COPY control-plane.txt navarch-*.whl /release/
# The hashes of the packages are in the list. pip itself is not needed afterwards.
RUN python -m venv /opt/navarch \
    && /opt/navarch/bin/pip install --no-cache-dir --require-hashes --no-deps -r /release/control-plane.txt \
    && /opt/navarch/bin/pip install --no-cache-dir --no-deps --no-index /release/navarch-*.whl \
    && /opt/navarch/bin/pip uninstall --yes pip \
    && mkdir -m 700 /state && chown 10001:10001 /state

FROM ${PYTHON_IMAGE}
COPY --from=build /opt/navarch /opt/navarch
COPY --from=build --chown=10001:10001 /state /var/lib/navarch
ENV PATH=/opt/navarch/bin:$PATH
USER 10001:10001
VOLUME /var/lib/navarch
EXPOSE 50051 50052
# The first process of a container ignores SIGTERM unless it handles it, as the control plane does.
ENTRYPOINT ["navarch"]
CMD ["serve", "--config", "/etc/navarch/navarch.yaml", "--data-dir", "/var/lib/navarch", "--log-json"]
