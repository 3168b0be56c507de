#!/bin/sh
# Puts the agent into an image, stopped and without an identity: user data gives it one at the
# first boot, which then takes seconds instead of the minute that pip takes.
set -eu
: "${NAVARCH_PACKAGE:=navarch}"
sudo apt-get update -qq
sudo apt-get install -y -qq python3-venv
sudo python3 -m venv /opt/navarch
sudo /opt/navarch/bin/pip install --quiet "$NAVARCH_PACKAGE"
/opt/navarch/bin/navarch version
# An image must not carry what makes a machine itself.
sudo rm -rf /etc/navarch /var/lib/navarch-agent
sudo cloud-init clean --logs 2>/dev/null || true
