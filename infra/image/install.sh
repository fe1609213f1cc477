#!/bin/bash
# Makes the environment that `infra/aws/guest/user_data.sh` finds and goes on with, of what an
# archive of the advisor asks for (`python -m advisor.infra.aws.guest.software`).
set -euo pipefail
root=${1:-/opt/advisor}
archive=${2:-/tmp/software.tar.gz}

if command -v apt-get > /dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  # A machine that has just started may be updating itself, and holds the lock meanwhile.
  apt-get -o DPkg::Lock::Timeout=300 update -q
  apt-get -o DPkg::Lock::Timeout=300 install -yq python3.12-venv
  # Not again on each instance, beside its first trials.
  systemctl disable apt-daily.timer apt-daily-upgrade.timer unattended-upgrades.service || true
fi
mkdir -p "$root"
cd "$root"
tar -xzf "$archive" requirements.txt constraints.txt
python3.12 -m venv venv
venv/bin/pip install --quiet boto3 --requirement requirements.txt --constraint constraints.txt
# What cannot be imported here would fail each start there.
venv/bin/python -c 'import boto3, torch, torchvision'
