#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Drives the demo's stage (simulated workers, Kvoy, a real Envoy) with GuideLLM as a user would, once through Kvoy
# and once by round robin over the same workers, and prints GuideLLM's own figures.
# tools/guidellm.sh [SECONDS_EACH [STREAMS]]; needs what `make build` and tools/fetch-guidellm.sh leave. The demo's
# own small load runs first and teaches the predictor.
set -euo pipefail
repo="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
local_dir="${KVOY_LOCAL:-$repo/.local}"
seconds="${1:-60}" streams="${2:-6}"
guidellm="$local_dir/guidellm-venv/bin/guidellm"
[ -x "$guidellm" ] || { echo "kvoy: GuideLLM is not there. Run: tools/fetch-guidellm.sh" >&2; exit 1; }

out="$(mktemp -d)"
stage=
trap '{ [ -z "$stage" ] || { kill "$stage" && wait "$stage"; }; } 2>/dev/null || true; rm -rf "$out"' EXIT
"$repo/tools/launch.sh" e2e io.kvoy.e2e.demo.Demo "" --workers sim --port 0 >"$out/stage.log" 2>&1 &
stage=$!
for _ in $(seq 300); do
  if grep -q 'Same workers by round robin' "$out/stage.log"; then break; fi
  kill -0 "$stage" 2>/dev/null || { cat "$out/stage.log" >&2; exit 1; }
  sleep 1
done
routed="$(sed -n 's|.*curl -si \(http://[^/]*\)/v1.*|\1|p' "$out/stage.log")"
plain="$(sed -n 's|.*Same workers by round robin: \(http://[^/ ]*\).*|\1|p' "$out/stage.log")"
[ -n "$routed" ] && [ -n "$plain" ] || { cat "$out/stage.log" >&2; exit 1; }

# Prefixes that fill more than one worker's cache, as in the published comparisons; tokens by the demo's tokenizer.
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
for way in "round-robin $plain" "kvoy $routed"; do
  read -r name door <<<"$way"
  printf '\n== %s (%s), %s s, %s streams\n' "$name" "$door" "$seconds" "$streams"
  "$guidellm" run \
    --backend "kind=openai_http,target=$door,model=demo-qwen3,request_format=/v1/chat/completions" \
    --profile "kind=concurrent,streams=$streams" \
    --constraint "kind=max_duration,seconds=$seconds" \
    --tokenizer "kind=huggingface_auto,model=$local_dir/tokenizers/qwen3/models" \
    --data "kind=synthetic_text,prompt_tokens=60,output_tokens=16,prefix_tokens=1500,prefix_count=12" \
    --output "kind=json,path=$out/$name.json" \
    --disable-console-interactive >"$out/$name.log" 2>&1 || { tail -n 30 "$out/$name.log" >&2; exit 1; }
  python3 - "$out/$name.json" <<'PY'
import json, sys

def find(node, key):
    """All values of a key, wherever they stand."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name == key:
                yield value
            yield from find(value, key)
    elif isinstance(node, list):
        for value in node:
            yield from find(value, key)

report = json.load(open(sys.argv[1]))
ttft = next(find(report, "time_to_first_token_ms"))["successful"]
done = next(find(report, "request_totals"))
print("TTFT ms: median %.0f, p90 %.0f, mean %.0f" % (ttft["percentiles"]["p50"], ttft["percentiles"]["p90"], ttft["mean"]))
print("requests: %s" % ", ".join("%s %s" % (k, v) for k, v in done.items()))
PY
done
