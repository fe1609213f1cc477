# An instance of the advisor: it measures, sends what it measured, and ends. Lines above this one
# are its parameters; none is a secret. InstanceInitiatedShutdownBehavior=terminate makes the
# shutdown its end.
set -u

# What failed before pip, boto3 or the advisor were there is told by the end of cloud-init's log: curl signs
# it with the credentials of the instance's role, which stand on no command line.
send_log() {
  local service=${AWS_EC2_METADATA_SERVICE_ENDPOINT:-http://169.254.169.254}/latest token keys tail sum
  fetch() { curl --silent --show-error --fail --max-time 10 "$@"; }
  token=$(fetch --noproxy '*' -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "$service/api/token")
  ask() { fetch --noproxy '*' -H "X-aws-ec2-metadata-token: $token" "$service/meta-data/$1"; }
  keys=$(ask "iam/security-credentials/$(ask iam/security-credentials/)")
  key() { sed -n "s/.*\"$1\" *: *\"\([^\"]*\)\".*/\1/p" <<< "$keys"; }
  case "$region" in cn-*) suffix=.cn ;; *) suffix= ;; esac
  tail=$(mktemp) && tail -c 262144 "$boot_log" > "$tail" && sum=$(sha256sum < "$tail")
  fetch --config - --aws-sigv4 "aws:amz:$region:s3" --upload-file "$tail" \
    "${AWS_ENDPOINT_URL:-https://s3.$region.amazonaws.com$suffix}/$bucket/$states_folder/$(ask instance-id).boot.log" \
    <<< "user = \"$(key AccessKeyId):$(key SecretAccessKey)\"
header = \"x-amz-security-token: $(key Token)\"
header = \"x-amz-content-sha256: ${sum%% *}\""
}
# The end never waits for that.
end() {
  code=$?
  set +e
  [ "$code" = 0 ] || send_log
  shutdown -h now || systemctl --force --force poweroff || poweroff -f
}
trap end EXIT

# First of all its end at the expiry, whatever becomes of the rest: two timers that do not know of
# each other. A clock that is behind buys no time.
left=$((expires_at_seconds - $(date +%s)))
[ "$left" -le "$lifetime_seconds" ] || left=$lifetime_seconds
[ "$left" -ge 60 ] || exit 1
timers=0
systemd-run --unit advisor-end --on-active "${left}s" --timer-property AccuracySec=1s \
  shutdown -h now && timers=1
shutdown -h "+$((left / 60))" && timers=1
[ "$timers" = 1 ] || exit 1

# Timers do not outlive a restart, and neither does the sweep: a second start is the end too.
mkdir -p "$per_boot" && printf '#!/bin/sh\nshutdown -h now\n' > "$per_boot/advisor-end" &&
  chmod 755 "$per_boot/advisor-end" || exit 1

# Nothing else is to run beside a trial: neither updates (whatever one of them has begun, it ends in
# order), nor a GPU that wakes up, or changes its clocks, between two of them. Where an image has none
# of these there is nothing to do.
quiet() {
  systemctl stop apt-daily.timer apt-daily-upgrade.timer dnf-makecache.timer
  systemctl --no-block stop apt-daily.service apt-daily-upgrade.service unattended-upgrades.service
  command -v nvidia-smi > /dev/null || return 0
  nvidia-smi -pm 1
  # The highest clocks of memory and processor that the GPU has: AWS's guide to GPU instances.
  clocks=$(nvidia-smi --query-supported-clocks=mem,gr --format=csv,noheader,nounits | head -n 1)
  nvidia-smi -ac "${clocks// /}"
}
quiet || true

set -eo pipefail
mkdir -p "$root"
cd "$root"
export AWS_DEFAULT_REGION="$region" HOME="$root" PYTHONUNBUFFERED=1 PIP_DISABLE_PIP_VERSION_CHECK=1

# Python 3.11 on, and a release: Ubuntu 22.04 has a candidate of 3.11, which torch does not take.
make_venv() {
  for name in python3.13 python3.12 python3.11; do
    rm -rf venv
    if "$name" -m venv venv &&
      venv/bin/python -c 'import sys; sys.exit(sys.version_info.releaselevel != "final")'; then
      return 0
    fi
  done
  echo "this image has no release of Python 3.11 to 3.13" >&2
  return 1
}

# A machine that has just started may be updating itself, and holds the lock meanwhile.
install_python() {
  if command -v dnf > /dev/null; then
    dnf install -yq python3.12
  else
    apt-get -o DPkg::Lock::Timeout=300 update -q &&
      apt-get -o DPkg::Lock::Timeout=300 install -yq python3-venv
  fi
}

# An image of infra/image has the environment, and pip finds nothing to fetch.
is_prebuilt() {
  venv/bin/python -c 'import boto3' 2> /dev/null
}

if ! is_prebuilt && ! make_venv; then
  export DEBIAN_FRONTEND=noninteractive
  for _ in 1 2 3 4 5 6; do
    install_python && break
    sleep 10
  done
  make_venv
fi

venv/bin/pip install --quiet boto3
venv/bin/python -c 'import boto3, sys
boto3.client("s3").download_file(*sys.argv[1:])' "$bucket" "$software_key" software.tar.gz
echo "$software_sha256  software.tar.gz" | sha256sum --check --quiet
mkdir -p software
tar -xzf software.tar.gz -C software
venv/bin/pip install --quiet --requirement software/requirements.txt \
  --constraint software/constraints.txt

# Its exit code is not ours: whatever it is, what follows is the end.
PYTHONPATH="$root/software" venv/bin/python -m advisor cloud guest "$job_url" \
  --region "$region" --until "$expires_at_seconds"
