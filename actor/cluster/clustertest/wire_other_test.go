//go:build !linux

package clustertest

import (
	"errors"
	"io"
)

func runWire(string, io.Reader, io.Writer) error { return errors.New("only Linux has wires") }
