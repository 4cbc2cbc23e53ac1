package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// IdempotencyOptions tune [Idempotency]. Zero fields mean the defaults.
type IdempotencyOptions struct {
	TTL        time.Duration // how long a command is remembered. Default 24 h
	KeepErrors bool          // remember also that a command was refused; see [EarlierError]
	Skip       []string      // types of commands that are not remembered
}

// done is what is remembered of a command, as a value of the table command/<bus>. Its key is
// the type of the command, a slash, and the idempotency key.
type done struct {
	AggregateID string           `json:"aggregate_id,omitempty"`
	Version     mainstem.Version `json:"version,omitempty"`
	Data        json.RawMessage  `json:"data,omitempty"`
	Error       string           `json:"error,omitempty"`
}

// EarlierError is the error of a command that was refused before under the same idempotency key.
type EarlierError struct {
	Command string // the type
	Key     string
	Message string // of the error at that time
}

// Error says what the error was.
func (e *EarlierError) Error() string {
	return fmt.Sprintf("command %s with idempotency key %.100q was refused before: %s", e.Command, e.Key, e.Message)
}

// Idempotency carries out a command once. Its key is the command's IdempotencyKey, else the
// CommandID of its [Base]; a command without either is carried out each time, because two equal
// commands may both be meant. The record of it is in the commit of what it led to. A later
// command of the same type and key within the TTL returns the first Result, with Duplicate set and Data as JSON (see
// [DataOf]), and nothing is done. Of two at the same time both may be handled and one is committed;
// the other returns the Result of the first.
//
// A command that fails is forgotten, and may come again, unless KeepErrors: then its error is
// remembered in a commit of its own, if trying again would not help.
func Idempotency(o IdempotencyOptions) Middleware {
	if o.TTL <= 0 {
		o.TTL = 24 * time.Hour
	}
	o.Skip = slices.Clone(o.Skip)
	return func(next Handler) Handler {
		return func(ctx context.Context, cmd Command) (Result, error) {
			at, key := attemptOf(ctx), idempotencyKey(cmd)
			if at == nil || key == "" || slices.Contains(o.Skip, cmd.CommandType()) {
				return next(ctx, cmd)
			}
			once := once{options: &o, bus: at.bus, cmd: cmd, key: key, record: cmd.CommandType() + "/" + key}
			return once.handle(ctx, next)
		}
	}
}

func idempotencyKey(cmd Command) string {
	if c, ok := cmd.(IdempotentCommand); ok {
		if key := c.IdempotencyKey(); key != "" {
			return key
		}
	}
	return baseOf(cmd).CommandID
}

// once is one command with a key.
type once struct {
	options *IdempotencyOptions
	bus     *Bus
	cmd     Command
	key     string
	record  string // key of the table command/<bus>
	tries   int    // commits that were prepared
}

func (o *once) handle(ctx context.Context, next Handler) (Result, error) {
	if r, found, err := o.earlier(ctx); found || err != nil {
		return r, err
	}
	BeforeCommit(ctx, o.remember)
	r, err := next(ctx, o.cmd)
	if err == nil {
		return r, nil
	}
	// Perhaps this command was faster elsewhere: then the commit was a conflict, or the handler
	// saw a state in which it was done already.
	earlier, found, lookup := o.earlier(ctx)
	switch {
	case found:
		return earlier, lookup
	case errors.Is(err, errDuplicate): // and its record has ended since
		return r, &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "dispatch", Outcome: mainstem.NotWritten, Err: errors.Join(err, lookup)}
	}
	return r, o.refused(ctx, err)
}

// earlier returns what the command led to before.
func (o *once) earlier(ctx context.Context) (Result, bool, error) {
	e, err := o.bus.done.Get(ctx, o.record)
	switch {
	case errors.Is(err, mainstem.ErrNotFound):
		return Result{}, false, nil
	case err != nil:
		return Result{}, false, fmt.Errorf("idempotency key %.100q: %w", o.key, err)
	case e.Value.Error != "":
		return Result{}, true, &EarlierError{Command: o.cmd.CommandType(), Key: o.key, Message: e.Value.Error}
	}
	r := Result{AggregateID: e.Value.AggregateID, Version: e.Value.Version, Position: e.Position, Duplicate: true}
	if e.Value.Data != nil {
		r.Data = e.Value.Data
	}
	return r, true, nil
}

// remember is the hook that adds the record to the commit. A try after the first one looks
// again, so that it does not run against the record of another one again and again.
func (o *once) remember(ctx context.Context, b *mainstem.Batch, r *Result) error {
	if o.tries++; o.tries > 1 {
		if _, found, err := o.earlier(ctx); found || err != nil {
			return errors.Join(errDuplicate, err)
		}
	}
	d := done{AggregateID: r.AggregateID, Version: r.Version}
	if r.Data != nil {
		var err error
		if d.Data, err = json.Marshal(r.Data); err != nil {
			return mainstem.Refusef(mainstem.KindInvalid, "command", "command %s: its result cannot be remembered: %w", o.cmd.CommandType(), err)
		}
	}
	o.bus.done.CreateTo(b, o.record, d, kv.TTL(o.options.TTL))
	return nil
}

// refused remembers an error, if that is asked for and the command would be refused again.
func (o *once) refused(ctx context.Context, err error) error {
	if !o.options.KeepErrors || err.Error() == "" || ctx.Err() != nil {
		return err
	}
	switch mainstem.KindOf(err) {
	case mainstem.KindCanceled, mainstem.KindUnavailable, mainstem.KindClosed, mainstem.KindCorrupt:
		return err
	}
	if errors.Is(err, mainstem.ErrUnknownOutcome) {
		return err
	}
	_, failed := o.bus.done.Create(ctx, o.record, done{Error: err.Error()}, kv.TTL(o.options.TTL))
	if errors.Is(failed, mainstem.ErrExists) || errors.Is(failed, mainstem.ErrConflict) {
		failed = nil // another one with the same key was faster
	}
	return errors.Join(err, failed)
}
