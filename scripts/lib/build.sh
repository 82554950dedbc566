# SPDX-License-Identifier: Apache-2.0
# Configures and builds; quiet unless something fails. Sourced after common.sh.
# shellcheck shell=bash

PLAIN_DIR=$BUILD_ROOT
SANITIZED_DIR=$BUILD_ROOT/sanitized

# jobs: one per core, but not more than memory allows (a sanitized Asio file takes up to 1.5 GB).
jobs() {
	local cores memory
	cores=$(nproc)
	memory=$(awk '/^MemAvailable:/ { print int($2 / 1500000) }' /proc/meminfo)
	((memory >= 1)) || memory=1
	printf '%d\n' $((memory < cores ? memory : cores))
}

# configure DIRECTORY CC CXX OPTION...: is always run; it takes a second, and finds new files. The compilers are set by the
# environment, because CMake discards a directory's settings if they are named again with another spelling.
configure() {
	local directory=$1 cc=$2 cxx=$3
	shift 3
	mkdir -p "$directory"
	(cd "$SLUICE_ROOT" && CC=$cc CXX=$cxx cmake -G Ninja -B "$directory" -S . "$@")
}

# make DIRECTORY TITLE TARGET...: continues after a failure, so that one run shows all of them.
make() { quietly "$2" ninja --quiet -k 0 -C "$1" -j "$(jobs)" "${@:3}"; }

# targets DIRECTORY PATTERN: ninja's names of the programs and skeletons that match.
targets() {
	ninja -C "$1" -t targets all | sed -n 's/: CXX_EXECUTABLE.*//p; s/^\([a-z]*_skeleton\): phony/\1/p' | grep -E "$2"
}

# configure_plain: g++, optimized, with debug information.
configure_plain() { quietly "configuring (g++)" configure "$PLAIN_DIR" gcc g++ -DCMAKE_BUILD_TYPE=RelWithDebInfo; }

# configure_sanitized: clang-19 with AddressSanitizer and UBSan; not optimized, which builds fastest.
configure_sanitized() {
	quietly "configuring (clang-19)" configure "$SANITIZED_DIR" clang-19 clang++-19 -DSLUICE_SANITIZE=ON \
		-DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O0 -gline-tables-only"
}

# build_plain [TARGET...]: builds the targets, or everything.
build_plain() { configure_plain && make "$PLAIN_DIR" "building with g++" "$@"; }

# build_plain_matching PATTERN, build_sanitized_matching PATTERN: builds the programs and skeletons whose names match.
build_plain_matching() {
	local -a names
	configure_plain || return 1
	mapfile -t names < <(targets "$PLAIN_DIR" "$1")
	make "$PLAIN_DIR" "building with g++" "${names[@]}"
}

build_sanitized_matching() {
	local -a names
	configure_sanitized || return 1
	mapfile -t names < <(targets "$SANITIZED_DIR" "$1")
	make "$SANITIZED_DIR" "building with clang-19, ASan and UBSan" "${names[@]}"
}

# shellcheck disable=SC2034  # used by name
OPTIMIZED=(-DCMAKE_BUILD_TYPE=RelWithDebInfo)
# Without optimization and debug information, which takes half the time: for what only has to compile, or to compute.
# shellcheck disable=SC2034
QUICK=(-DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0)

# build_foreign ARCH [TARGET...]: builds for another architecture, in $BUILD_ROOT/ARCH; by default everything but the
# benches.
build_foreign() { foreign "$1" OPTIMIZED "${@:2}"; }

# compiles_foreign ARCH TARGET...: likewise, but only whether it compiles; nothing made here is used.
compiles_foreign() { foreign "$1" QUICK "${@:2}"; }

# foreign ARCH OPTIMIZED|QUICK [TARGET...]: configures and builds.
foreign() {
	local arch=$1 sysroot
	local -n options=$2
	[[ -e $SLUICE_ROOT/scripts/lib/$arch.cmake ]] || die "knows no cross tools for $arch on this machine."
	sysroot=$("$SLUICE_ROOT/scripts/lib/sysroot" "$arch") || return 1
	quietly "configuring for $arch" configure "$BUILD_ROOT/$arch" "" "" "${options[@]}" -DSLUICE_BENCH=OFF \
		-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON \
		-DCMAKE_TOOLCHAIN_FILE="$SLUICE_ROOT/scripts/lib/$arch.cmake" -DSLUICE_SYSROOT="$sysroot" || return 1
	make "$BUILD_ROOT/$arch" "building for $arch" "${@:3}"
}
