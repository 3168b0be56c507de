#!/bin/sh
# Installs the agent into an image, stopped and without an identity, which user data supplies at the
# first boot. That boot then takes seconds instead of the minute that pip needs.
set -eu
: "${NAVARCH_PACKAGE:=navarch}"
sudo apt-get update -qq
sudo apt-get install -y -qq python3-venv
sudo python3 -m venv /opt/navarch
sudo /opt/navarch/bin/pip install --quiet "$NAVARCH_PACKAGE"
/opt/navarch/bin/navarch version
# An image must not contain the identity of a machine.
sudo rm -rf /etc/navarch /var/lib/navarch-agent
sudo cloud-init clean --logs 2>/dev/null || true
