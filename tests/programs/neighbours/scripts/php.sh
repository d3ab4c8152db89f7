#!/bin/sh
# SPDX-License-Identifier: MIT
php -n "$SCRIPTS/f.php"
