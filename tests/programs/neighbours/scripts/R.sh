#!/bin/sh
# SPDX-License-Identifier: MIT
Rscript --vanilla "$SCRIPTS/f.R"
