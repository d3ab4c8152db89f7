#!/bin/sh
# SPDX-License-Identifier: MIT
# Sourced: twelve files in C, and a program that calls what is in them and ends with 3.
for i in $(seq 12); do echo "int f$i(int a) { return a * $i; }" >"f$i.c"; done
{
	for i in $(seq 12); do echo "int f$i(int);"; done
	echo '#include <stdio.h>'
	echo 'int main(void) { int s = 0;'
	for i in $(seq 12); do echo "s += f$i($i);"; done
	echo 'printf("%d", s); puts(""); return s == 650 ? 3 : 1; }'
} >main.c
