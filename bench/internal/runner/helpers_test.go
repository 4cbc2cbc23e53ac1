package runner_test

import (
	"log/slog"
	"os"
	"strconv"
)

var quiet = slog.New(slog.DiscardHandler)

func pid() string { return strconv.Itoa(os.Getpid()) }
