#!/bin/sh
# SPDX-License-Identifier: MIT
ruby "$SCRIPTS/f.rb"
