#!/bin/sh
# SPDX-License-Identifier: MIT
cp "$SCRIPTS/files.pl" .
perl -T -we 'print "taint ${^TAINT}\n"'
perl files.pl
