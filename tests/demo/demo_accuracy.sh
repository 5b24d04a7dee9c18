#!/usr/bin/env bash
# demo_accuracy.sh PROGRAMS [SEED...]: the demo's accuracy over three seeds; not part of ./dev test, since it takes
# minutes. Fails below 90 %.
set -euo pipefail
programs=$1
shift
[ $# -gt 0 ] || set -- 1 2 3
report=$(mktemp)
trap 'rm -f "$report"' EXIT
for seed in "$@"; do
  OMP_NUM_THREADS=1 "$programs/syncline" run -np 2 "$programs/syncline-train" --data fashion-mnist --model small-cnn \
    --batch 64 --epochs 3 --seed "$seed" --eval end --quiet --json "$report" > /dev/null
  /usr/bin/python3 -c '
import json, sys
r = json.load(open(sys.argv[1]))
print("seed %s: test accuracy %.2f %%, %.1f s of training, %.0f images/s" % (
    sys.argv[2], 100 * r["test_accuracy"], r["train_seconds"], r["images_per_second"]))
sys.exit(r["test_accuracy"] < 0.9)' "$report" "$seed"
done
