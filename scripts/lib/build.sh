# Configuring and building, quiet when all is well. Sourced after common.sh.
# shellcheck shell=bash

PLAIN_DIR=$BUILD_ROOT
SANITIZED_DIR=$BUILD_ROOT/sanitized

# jobs: one per core, but no more than memory allows (a sanitized Asio file takes up to 1.5 GB).
jobs() {
	local cores memory
	cores=$(nproc)
	memory=$(awk '/^MemAvailable:/ { print int($2 / 1500000) }' /proc/meminfo)
	((memory >= 1)) || memory=1
	printf '%d\n' $((memory < cores ? memory : cores))
}

# configure DIRECTORY CC CXX OPTION...: always run; it takes a second, and picks up new files. The compilers go by the
# environment, because CMake throws a directory's settings away when they are named again, spelled differently.
configure() {
	local directory=$1 cc=$2 cxx=$3
	shift 3
	mkdir -p "$directory"
	(cd "$SLUICE_ROOT" && CC=$cc CXX=$cxx cmake -G Ninja -B "$directory" -S . "$@")
}

# build_plain [TARGET...]: g++, optimized, with debug information.
build_plain() {
	quietly "configuring (g++)" configure "$PLAIN_DIR" gcc g++ -DCMAKE_BUILD_TYPE=RelWithDebInfo &&
		quietly "building with g++" ninja --quiet -k 0 -C "$PLAIN_DIR" -j "$(jobs)" "$@"
}

# build_sanitized [TARGET...]: clang-19 with AddressSanitizer and UBSan; also the build for clang's warnings.
build_sanitized() {
	quietly "configuring (clang-19)" configure "$SANITIZED_DIR" clang-19 clang++-19 -DSLUICE_SANITIZE=ON \
		-DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O1 -gline-tables-only" &&
		quietly "building with clang-19, ASan and UBSan" ninja --quiet -k 0 -C "$SANITIZED_DIR" -j "$(jobs)" "$@"
}
