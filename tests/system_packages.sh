#!/bin/sh
# The Debian packages whose programs the tests run for real: installs those that are missing. `make test` calls it.
set -eu

# program, and the package that brings it
WANTED="
prometheus prometheus
promtool prometheus
chromium chromium
chromedriver chromium-driver
buildah buildah
debootstrap debootstrap
wrk wrk
"

missing=$(echo "$WANTED" | while read -r program package; do
    test -z "$program" || command -v "$program" >/dev/null || echo "$package"
done)
test -n "$missing" || exit 0

# shellcheck disable=SC2086 # several words on purpose
set -- $missing
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "tests/system_packages.sh: some tests will fail without: $*; install them (Debian: apt-get install $*)" >&2
    exit 0
fi
echo "installing for the tests: $*"
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
# The package starts a server for the whole machine; tests start their own.
systemctl disable --now prometheus >/dev/null 2>&1 || true
