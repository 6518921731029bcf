#!/usr/bin/env bash
# Two NCCL ranks on one GPU, made to talk over the plugin: different host ids keep them from sharing
# memory. Correctness only: two processes share the GPU in turns, so the bandwidth means nothing.
#
#   nccl/gpu-test.sh [BYTES]      most bytes of a collective; 64M
#
# NCCL_TESTS  the build/ folder of nccl-tests, built with MPI=1; otherwise
#             the source in NCCL_TESTS_SRC is built so (MPI_HOME as nccl-tests wants it)
# NCCL_HOME   where NCCL is, if the linker does not find it; CUDA_HOME as nccl-tests wants it
#
# Exit status: 0: all results right, over NET/Braid; 1: not so; 2: cannot be tested here.
set -euo pipefail

skip() { echo "gpu-test: $*" >&2; exit 2; }
fail() { echo "gpu-test: $*" >&2; exit 1; }

bytes=${1:-64M}
repo=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

command -v nvidia-smi >/dev/null || skip "no nvidia-smi: there is no NVIDIA driver on this machine"
nvidia-smi -L 2>/dev/null | grep -q '^GPU' || skip "nvidia-smi lists no GPU"
command -v cargo >/dev/null || skip "no cargo: the plugin cannot be built"

tests=${NCCL_TESTS:-}
if [ -z "$tests" ]; then
    [ -n "${NCCL_TESTS_SRC:-}" ] || skip "set NCCL_TESTS to the build folder of nccl-tests, or NCCL_TESTS_SRC to its source"
    command -v "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" >/dev/null || command -v nvcc >/dev/null \
        || skip "no nvcc: nccl-tests cannot be built; set NCCL_TESTS to a built one"
    make -C "$NCCL_TESTS_SRC" -j "$(nproc)" MPI=1 BUILDDIR="$work/build" ${NCCL_HOME:+NCCL_HOME="$NCCL_HOME"} >"$work/make.log" 2>&1 \
        || { tail -20 "$work/make.log" >&2; skip "nccl-tests does not build"; }
    tests=$work/build
fi
perf=$tests/all_reduce_perf
[ -x "$perf" ] || skip "there is no $perf"
command -v mpirun >/dev/null || skip "no mpirun: nccl-tests starts two processes with MPI only"

target=${CARGO_TARGET_DIR:-$repo/target}
(cd "$repo" && cargo build --release -p braid-nccl) || fail "the plugin does not build"
cp "$target/release/libnccl_net_braid.so" "$work/libnccl-net-braid.so"

rank() { # HOSTID: what a rank needs to know
    echo env "NCCL_HOSTID=$1" "$perf" -b 8 -e "$bytes" -f 2 -g 1 -c 1
}
export NCCL_NET_PLUGIN=$work/libnccl-net-braid.so NCCL_NET=Braid
export NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_SOCKET_IFNAME=lo BRAID_IFNAME=lo
export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET
export LD_LIBRARY_PATH=${NCCL_HOME:+$NCCL_HOME/lib:}${LD_LIBRARY_PATH:-}
# Both ranks on the first GPU; otherwise the second rank would look for a second one.
export NCCL_TESTS_DEVICE=0

log=$work/run.log
# shellcheck disable=SC2046 # the words of a rank's command are meant to split
timeout 300 mpirun --allow-run-as-root --oversubscribe \
    -np 1 $(rank h0) : -np 1 $(rank h1) >"$log" 2>&1 || { tail -40 "$log" >&2; fail "all_reduce_perf failed"; }

grep -E '^ +[0-9]+ |Avg bus|Out of bounds' "$log"
grep -q 'via NET/Braid' "$log" || fail "NCCL did not use the plugin; its log has no \`via NET/Braid\`"
grep -qE 'Out of bounds values *: *0 OK' "$log" || fail "results are wrong"
echo "gpu-test: right, $(grep -c 'via NET/Braid' "$log") connections via NET/Braid"
