#!/bin/sh
# SPDX-License-Identifier: MIT
export HOME=$PWD GIT_AUTHOR_DATE='2001-01-01 00:00 +0000' GIT_COMMITTER_DATE='2001-01-01 00:00 +0000'
export GIT_CONFIG_NOSYSTEM=1
git config --global user.name n
git config --global user.email n@example.org
git init -q -b main one
for i in $(seq 30); do seq "$i" 200 >one/"$i"; done
git -C one add .
git -C one commit -q -m first
git -C one mv 1 renamed
git -C one commit -q -m second
git clone -q --no-local one two 2>&1
git -C two gc -q --aggressive --prune=now
git -C two fsck --full 2>&1 | sort
git -C two log --stat | tail -5
git -C two rev-parse HEAD
rm -rf one two .gitconfig
