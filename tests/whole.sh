#!/usr/bin/env bash
# whole.sh PROGRAM PART PARTS: the tests of one of PARTS equal parts of a test program in one process, in an order of its own
# each time: no test may need what another leaves behind, or suffer from it. The seed is told; ISOCHRON_TEST_SEED repeats its
# order.
set -euo pipefail
usage="usage: whole.sh PROGRAM PART PARTS"
export GTEST_TOTAL_SHARDS=${3:?$usage}
export GTEST_SHARD_INDEX=$((${2:?$usage} - 1))
seed=${ISOCHRON_TEST_SEED:-$((RANDOM % 99999 + 1))}
echo "order of ISOCHRON_TEST_SEED=$seed"
exec "${1:?$usage}" --gtest_brief=1 --gtest_shuffle --gtest_random_seed="$seed"
