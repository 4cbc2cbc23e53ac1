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
	glanceTime  = time.Second            // to open the log and read
	glanceGrace = 300 * time.Millisecond // to notice that the time is over, and close the log
)

// Glance runs do with the log that the command line names, for a completion of the shell: it creates no log, prints
// nothing, and returns in time, without running do if the log cannot be opened. do may still run when Glance returns; its
// context has ended then.
func (m *Main) Glance(cmd *cobra.Command, do func(ctx context.Context, log mainstem.Log)) {
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithTimeout(parent, glanceTime)
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
	late := time.NewTimer(glanceTime + glanceGrace)
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
