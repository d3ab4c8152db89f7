#!/bin/sh
# SPDX-License-Identifier: MIT
export HOME=$PWD GOCACHE="$PWD"/c GOFLAGS=-mod=mod GO111MODULE=off GOTOOLCHAIN=local
cp "$SCRIPTS/squares.go" .
CGO_ENABLED=0 go build -o static squares.go && go vet squares.go
./static || echo "$?"
go version
rm -rf c static go
