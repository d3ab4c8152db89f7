#!/bin/sh
# SPDX-License-Identifier: MIT
cp "$SCRIPTS/workers.js" .
node workers.js
