# SPDX-License-Identifier: Apache-2.0
"""The test runner behind scripts/test: what is selected (selection), prepared (needs), run (levels) and reported
(report)."""
