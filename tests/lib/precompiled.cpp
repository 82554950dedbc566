// SPDX-License-Identifier: Apache-2.0
// Has nothing: its target owns the tests' precompiled headers.
