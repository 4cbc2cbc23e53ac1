package cli

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/server"
)

// How long a completion of the shell may take.
const (
	glanceTime  = time.Second            // to open the log and read, unless CompletionTime says otherwise
	glanceGrace = 300 * time.Millisecond // to notice that the time is over, and close the log
)

// CompletionTime is the variable of the environment with the time, such as 5s, that a completion may take to open the
// log and read. Default one second.
const CompletionTime = "MAINSTEM_COMPLETION_TIME"

// glanceTime returns the time of a completion. One that is not a time above 0 is ignored: a shell has no place for an
// error.
func (m *Main) glanceTime() time.Duration {
	if d, err := time.ParseDuration(m.Variable(CompletionTime)); err == nil && d > 0 {
		return d
	}
	return glanceTime
}

// Glance runs do with the log that the command line names, for a completion of the shell: it creates no log, prints
// nothing, and returns in time, without running do if the log cannot be opened. do may still run when Glance returns; its
// context has ended then.
func (m *Main) Glance(cmd *cobra.Command, do func(ctx context.Context, log mainstem.Log)) {
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	limit := m.glanceTime()
	ctx, cancel := context.WithTimeout(parent, limit)
	defer cancel()
	cmd.SetContext(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = m.WithTarget(cmd, func(ctx context.Context, target string, o *server.LogOptions) error {
			if isOwn(target) {
				return nil
			}
			o.MustExist, o.Logger = true, slog.New(slog.DiscardHandler)
			log, err := server.OpenLog(ctx, target, o)
			if err != nil {
				return err
			}
			do(ctx, log)
			return log.Close()
		}) // a shell has no place for an error
	}()
	late := time.NewTimer(limit + glanceGrace)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	}
}

// isOwn reports whether opening target starts a server in this process, or makes an empty log.
func isOwn(target string) bool {
	return target == server.Memory || strings.HasPrefix(target, "nats:embedded")
}
