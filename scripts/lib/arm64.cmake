# SPDX-License-Identifier: Apache-2.0
# Debian's cross tools for arm64, and the libraries that scripts/lib/sysroot has unpacked into SLUICE_SYSROOT.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES SLUICE_SYSROOT)
set(CMAKE_SYSROOT ${SLUICE_SYSROOT})
set(CMAKE_C_FLAGS_INIT "-isystem ${SLUICE_SYSROOT}/uapi")
set(CMAKE_CXX_FLAGS_INIT "-isystem ${SLUICE_SYSROOT}/uapi")
# Libraries of libraries: the linker finds them as the loader would.
set(CMAKE_EXE_LINKER_FLAGS_INIT
    "-Wl,-rpath-link,${SLUICE_SYSROOT}/usr/lib/aarch64-linux-gnu:${SLUICE_SYSROOT}/lib/aarch64-linux-gnu")

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${SLUICE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${SLUICE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${SLUICE_SYSROOT}/usr/share/pkgconfig)
# What the compiler makes runs here by emulation.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L ${SLUICE_SYSROOT})
