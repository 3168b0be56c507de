# The agent, from the files of a release:
#   scripts/build-release dist && docker build -f deploy/container/agent.Dockerfile -t navarch-agent dist
# On a GPU machine it needs root, the driver and the kernel's log:
#   docker run -d --name navarch-agent --restart always --user 0 --gpus all --pid host --privileged \
#     -v /dev/kmsg:/dev/kmsg:ro -v /var/lib/navarch-agent:/var/lib/navarch-agent \
#     -e NAVARCH_SERVER=... -e NAVARCH_NODE_ID=$(hostname) -e NAVARCH_JOIN_TOKEN=... navarch-agent
ARG PYTHON_IMAGE=python:3.12-slim
FROM ${PYTHON_IMAGE} AS build
COPY agent.txt navarch-*.whl /release/
# The hashes of the packages are in the list. pip itself is not needed afterwards.
RUN python -m venv /opt/navarch \
    && /opt/navarch/bin/pip install --no-cache-dir --require-hashes --no-deps -r /release/agent.txt \
    && /opt/navarch/bin/pip install --no-cache-dir --no-deps --no-index /release/navarch-*.whl \
    && /opt/navarch/bin/pip uninstall --yes pip \
    && mkdir -m 700 /state && chown 10001:10001 /state

FROM ${PYTHON_IMAGE}
COPY --from=build /opt/navarch /opt/navarch
COPY --from=build --chown=10001:10001 /state /var/lib/navarch-agent
ENV PATH=/opt/navarch/bin:$PATH \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=utility,compute \
    STATE_DIRECTORY=/var/lib/navarch-agent
USER 10001:10001
VOLUME /var/lib/navarch-agent
ENTRYPOINT ["navarch", "agent"]
