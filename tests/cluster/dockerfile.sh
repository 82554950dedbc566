#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The image that a container engine builds from k8s/deploy/Dockerfile (scripts/lib/dockerfile-image), on the cluster of `instead`: it
# becomes ready, serves, is upgraded and removed as the image of scripts/package. Only in the long form: it compiles the agent
# in a Debian 13.
set -euo pipefail
# shellcheck source=scripts/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib/common.sh"

SLUICE_IMAGE=${DOCKERFILE_IMAGE:-$("$SLUICE_ROOT/scripts/lib/dockerfile-image")}
export SLUICE_IMAGE
exec bash "$SLUICE_ROOT/tests/cluster/instead.sh"
