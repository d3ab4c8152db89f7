#!/bin/sh
# SPDX-License-Identifier: MIT
zsh -f -c 'mkdir -p a/b
touch a/x.c a/b/y.c
print -l a/**/*.c(.N)
typeset -A h
h[k]=v
print ${(k)h}
zmodload zsh/zpty zsh/system zsh/stat
zpty p cat
zpty -w p hello
zpty -r p l "*hello*"
print ${#l}
zpty -d p
cat =(<<<text); cat <(seq 3); (exit 9); print $?; limit; return 4'
