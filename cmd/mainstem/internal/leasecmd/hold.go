package leasecmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/cmd/mainstem/internal/cli"
	"github.com/mainstemdev/mainstem/internal/uuid"
	"github.com/mainstemdev/mainstem/lease"
)

// hold is mainstem lease hold:
//
//	         free            the command ends
//	waiting ──────▶ holding ──────────────────▶ its exit status
//	                   │ lost, or interrupted       ▲
//	                   └──────▶ SIGTERM, then SIGKILL
//
// When a lease is lost, package lease leaves its owner a quarter of the TTL to stop in. So the
// pause before SIGKILL then is a fifth of it at the most.
type hold struct {
	commands
	name   string
	bucket string
	value  string
	ttl    time.Duration
	grace  time.Duration // between SIGTERM and SIGKILL
	wait   time.Duration // for the log and another holder; 0: without end
	noWait bool
}

// lostShare is the part of the TTL that a command has to stop in after the lease was lost.
const lostShare = 5

// leaveTimeout bounds how long the lease is given back.
const leaveTimeout = 5 * time.Second

func (m commands) newHold() *cobra.Command {
	h := hold{commands: m}
	cmd := &cobra.Command{
		Use:   "hold NAME -- COMMAND [ARGUMENT...]",
		Short: "Run a command while a lease is held",
		Long: `Wait for the lease called NAME, run a command while it is held, give it back, and exit
with the status of the command (128 and the signal if a signal ended it; 127 if there
is no such command). Of all that hold the same NAME in a log one at a time runs.

The log has to answer while the lease is waited for: within --wait, or within --ttl if
--no-wait is given. Else the exit status is 1.

If the lease is lost, because the log cannot be reached or the machine was suspended,
the command gets SIGTERM, and SIGKILL after --grace, a fifth of --ttl at the most: it
has ended before another may have the lease, if clocks run evenly. The exit status
then is never 0. Interrupted, the command is stopped in the same way; where standard
input is no terminal, with all processes of its group.

The command finds LEASE_NAME and LEASE_EPOCH in its environment. The next holder has a
higher epoch: a system that remembers the highest can refuse what an earlier one still
sends.

A directory is open to one process, so a lease in one keeps others from the directory
as a whole: name a server, NATS or PostgreSQL with --log.`,
		Example: `  mainstem lease hold backup -- ./backup.sh --full
  mainstem lease hold --no-wait --ttl 30s nightly -- sh -c 'reindex && vacuum'`,
		Args: cli.Args(2, -1),
		RunE: func(cmd *cobra.Command, a []string) error {
			path, err := h.check(cmd, a)
			if err != nil {
				return err
			}
			h.name = a[0]
			return m.WithLog(cmd, cli.Writing, func(ctx context.Context, log mainstem.Log) error {
				return h.run(ctx, log, path, a[1:])
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&h.bucket, "bucket", holdBucket, "`bucket` of the lease")
	f.StringVar(&h.value, "value", "", "`text` that others see beside the lease (default host, process and command)")
	f.DurationVar(&h.ttl, "ttl", lease.DefaultTTL, "the lease ends when it was not renewed for this `duration`")
	f.DurationVar(&h.grace, "grace", 10*time.Second, "`pause` between SIGTERM and SIGKILL")
	f.DurationVar(&h.wait, "wait", 0, "wait at most this `duration` for the lease and the log (default without end)")
	f.BoolVar(&h.noWait, "no-wait", false, "do not wait if another holds the lease (exit status 4)")
	cmd.MarkFlagsMutuallyExclusive("wait", "no-wait")
	return cmd
}

// check returns the path of the command.
func (h *hold) check(cmd *cobra.Command, a []string) (path string, err error) {
	switch {
	case cmd.ArgsLenAtDash() != 1:
		return "", cli.WrongUsage(cmd, errors.New("want one NAME, then --, then the command"))
	case h.grace < 0 || h.wait < 0:
		return "", cli.WrongUsage(cmd, fmt.Errorf("--grace is %v and --wait %v: want 0 or more", h.grace, h.wait))
	case h.ttl < lease.MinTTL || h.ttl > lease.MaxTTL:
		return "", cli.WrongUsage(cmd, fmt.Errorf("--ttl is %v: want %v to %v", h.ttl, lease.MinTTL, lease.MaxTTL))
	}
	if path, err = exec.LookPath(a[1]); err != nil {
		return "", &cli.StatusError{Status: noCommand, Err: err}
	}
	if h.value == "" {
		host, _ := os.Hostname() // without it the process is named alone
		h.value = fmt.Sprintf("host %s, process %d: %s", host, os.Getpid(), strings.Join(a[1:], " "))
		h.value = strings.ToValidUTF8(h.value[:min(len(h.value), 512)], "")
	}
	return path, nil
}

// run takes the lease, runs the command, and gives the lease back.
func (h *hold) run(ctx context.Context, log mainstem.Log, path string, argv []string) (err error) {
	self := lease.Member{Name: fmt.Sprintf("hold-%d-%s", os.Getpid(), uuid.Random()), Start: uint64(time.Now().UnixNano())}
	waiting, cancel := h.waiting(ctx)
	defer cancel()
	k, err := lease.Open(waiting, log, self, &lease.Options{Bucket: h.bucket, TTL: h.ttl, Logger: h.Logger()})
	if err != nil {
		return h.explain(ctx, err)
	}
	defer func() {
		leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer cancel()
		if cerr := k.Close(leave); err == nil {
			err = cerr
		}
	}()
	l, err := h.acquire(waiting, k)
	if err != nil {
		return h.explain(ctx, err)
	}
	p, err := h.start(path, argv, l)
	if err != nil {
		return &cli.StatusError{Status: cannotRun, Err: fmt.Errorf("run %s: %w", path, err)}
	}
	if err := h.watch(ctx, p, l); err != nil {
		return err
	}
	return h.confirm(ctx, log, l)
}

// waiting returns the context in which the lease is waited for, and the log.
func (h *hold) waiting(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := h.wait
	if h.noWait {
		limit = h.ttl
	}
	if limit == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, &mainstem.DeadlineError{After: limit})
}

// explain returns the error of the command for err, with which the wait for the lease has ended. ctx is that of the
// command: if it has not ended, a Canceled error is the end of [hold.waiting], and so Unavailable.
func (h *hold) explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil && errors.Is(err, lease.ErrHeld):
		return mainstem.Ended(ctx, "lease hold", time.Time{}, "the holder of the lease "+h.name)
	case ctx.Err() == nil && errors.Is(err, mainstem.ErrCanceled):
		return mainstem.Errorf(mainstem.KindUnavailable, "lease hold", "%v", err)
	}
	return err
}

// acquire waits for the lease until ctx ends. The error is [lease.ErrHeld] if another member has the lease then.
func (h *hold) acquire(ctx context.Context, k *lease.Keeper) (*lease.Lease, error) {
	var meter *cli.Meter
	defer func() { meter.Finish() }()
	for held := error(nil); ; {
		changed := k.Changed()
		if _, err := k.Session(ctx); err != nil {
			return nil, err
		}
		l, err := k.Acquire(ctx, h.name, h.value)
		switch {
		case err == nil:
			return l, nil
		case errors.Is(err, lease.ErrLost):
			continue // the next session is waited for
		case held != nil && ctx.Err() != nil:
			return nil, held // ctx has ended during another attempt
		case !errors.Is(err, lease.ErrHeld) || h.noWait:
			return nil, err
		}
		if held == nil {
			meter = h.sayWaiting(k)
		}
		held = err
		again := time.NewTimer(h.ttl) // changes wake it; this is for what they do not say
		select {
		case <-changed:
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return nil, held
		}
		again.Stop()
	}
}

// sayWaiting tells a person who has the lease.
func (h *hold) sayWaiting(k *lease.Keeper) *cli.Meter {
	text := "waiting for the lease " + cli.Printable(h.name)
	if held, ok := k.Holder(h.name); ok && held.Value != "" {
		text += ", held by " + cli.Printable(held.Value)
	}
	meter := h.StartMeter(text, 0)
	if meter == nil && !h.Flags.JSON {
		fmt.Fprintln(h.Stderr, text)
	}
	return meter
}

// watch waits for the end of the command, and stops it if the lease is lost or ctx ends. A nil
// error is exit status 0 of a command that has ended by itself or was interrupted.
func (h *hold) watch(ctx context.Context, p *process, l *lease.Lease) error {
	var why error
	select {
	case <-p.done:
	case <-l.Done():
		why = h.lost(": the command was stopped")
		p.stop(min(h.grace, h.ttl/lostShare))
	case <-ctx.Done():
		why = context.Cause(ctx)
		p.stop(h.grace)
	}
	status := p.status()
	switch inOrder := why == nil || errors.Is(why, cli.ErrInterrupted); {
	case inOrder && status == 0:
		return nil
	case inOrder:
		return &cli.StatusError{Status: status} // what there is to say, the command has said
	case status == 0:
		status = cli.ExitFailed
	}
	return &cli.StatusError{Status: status, Err: why}
}

// confirm returns nil if the lease was held until now, and so while the command ran. The clock does not tell that if
// the machine was suspended meanwhile, and the next renewal may not be due yet: the log does.
func (h *hold) confirm(ctx context.Context, log mainstem.Log, l *lease.Lease) error {
	err := mainstem.ErrConflict
	if l.Valid() {
		b := mainstem.NewBatch()
		l.Fence(b)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer cancel()
		_, err = log.Commit(ctx, b)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, mainstem.ErrConflict):
		return h.lost(" while the command ran")
	}
	return mainstem.Errorf(mainstem.KindUnavailable, "lease hold", "the command has ended; it is not known whether it had the lease until then: %v", err)
}

// lost is the error of a lease that was lost.
func (h *hold) lost(when string) error {
	return mainstem.Errorf(mainstem.KindUnavailable, "lease hold", "the lease %s was lost%s", cli.Printable(h.name), when)
}
