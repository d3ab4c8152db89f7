#!/bin/sh
# SPDX-License-Identifier: MIT
cp "$SCRIPTS/Main.java" .
java -Xshare:auto -XX:+UseG1GC Main.java
