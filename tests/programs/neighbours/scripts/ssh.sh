#!/bin/sh
# SPDX-License-Identifier: MIT
ssh -V 2>&1
ssh -G -F /dev/null example.org | grep -e ^port -e ^user
ssh-keygen -q -t ed25519 -N '' -C c -f key
ssh-keygen -l -f key.pub | sed 's/SHA256:[^ ]*//'
echo text >m
ssh-keygen -q -Y sign -n file -f key m
printf 'me %s\n' "$(cat key.pub)" >allowed
ssh-keygen -Y verify -f allowed -I me -n file -s m.sig <m | sed 's/SHA256:.*//'
ssh-agent sh -c 'ssh-add -q key && ssh-add -l | wc -l' 2>&1
rm key key.pub m.sig allowed
