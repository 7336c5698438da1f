#!/bin/sh
# Checks the training SDK on this machine's GPU and writes device_check.json into a folder.
#
# usage: run RESULTS [OPTIONS AND CHECKS OF device_check]
#
# Needs NVIDIA's driver, and libtorch @LIBTORCH@ for CUDA 13: the folder that LIBTORCH names (it
# holds lib/), or the one of python3's torch. Exit codes: 0 every goal holds; 1 one does not, or a
# check failed; 2 wrong usage; 3 there is no GPU or no such libtorch.
set -u
here=$(cd "$(dirname "$0")" && pwd)
wanted=@LIBTORCH@

refuse() {
    echo "error: $1" >&2
    exit 3
}

case ${1:-} in
'' | -*)
    echo "usage: $0 RESULTS [OPTIONS AND CHECKS OF device_check]" >&2
    exit 2
    ;;
esac
results=$1
shift

device=${SHOCKWAVE_GPU_DEVICE:-/dev/nvidiactl}
case " $* " in
*" --device cpu "* | *" --device=cpu "*) ;;
*) [ -e "$device" ] || refuse "this machine has no NVIDIA GPU ($device is not there): nothing was checked" ;;
esac

if [ -n "${LIBTORCH:-}" ]; then
    root=$LIBTORCH
    whose="LIBTORCH=$root"
else
    # Without importing it: that takes seconds, and needs more than the libraries.
    root=$(python3 -c 'import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0] if s else "")' 2>/dev/null)
    whose="python3's torch"
    [ -n "$root" ] || refuse "no libtorch was found: set LIBTORCH to the folder of libtorch $wanted for CUDA 13, or install PyTorch $wanted for python3"
fi
for library in libtorch_cpu.so libtorch_cuda.so; do
    [ -e "$root/lib/$library" ] || refuse "$whose: there is no lib/$library in $root; libtorch $wanted for CUDA 13 is needed"
done
if [ -e "$root/build-version" ]; then
    version=$(head -n 1 "$root/build-version")
else
    version=$(sed -n "s/^__version__ = '\(.*\)'.*/\1/p" "$root/version.py" 2>/dev/null | head -n 1)
fi
case $version in
"${wanted%.*}".*) ;;
*) refuse "$whose is libtorch ${version:-of unknown version}; these programs are built for $wanted" ;;
esac

# PyTorch's packages keep CUDA's libraries beside it.
path=$root/lib
for folder in "$root"/../nvidia/*/lib; do
    [ -d "$folder" ] && path=$path:$folder
done
LD_LIBRARY_PATH=$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
# cuBLAS computes the same bits each time only with it.
CUBLAS_WORKSPACE_CONFIG=${CUBLAS_WORKSPACE_CONFIG:-:4096:8}
export CUBLAS_WORKSPACE_CONFIG

"$here/device_check" --out "$results" "$@"
code=$?
[ "$code" -lt 126 ] || echo "error: device_check ended with code $code before its end (it was built for 64-bit x86 Linux; see above for what it lacks)" >&2
exit $code
