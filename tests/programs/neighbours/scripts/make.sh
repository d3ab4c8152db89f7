#!/bin/sh
# SPDX-License-Identifier: MIT
cat >Makefile <<'END'
all: $(addprefix o/,$(shell seq 60))
o/%: | o
	@echo made $* >$@; echo $@
o:
	@mkdir o
bad:
	@exit 3
END
make -j8 --output-sync=target | sort
cat o/* | sort | sha256sum
make bad 2>&1 || echo "status $?"
