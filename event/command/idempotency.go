package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// IdempotencyOptions configure [Idempotency]. Zero fields mean the defaults.
type IdempotencyOptions struct {
	TTL        time.Duration // how long a record is kept. Default 24 h
	KeepErrors bool          // also records errors; see [Idempotency] and [EarlierError]
	Skip       []string      // command types without idempotency
}

// done is an idempotency record: a value of the table command/<bus>. Its key is the command type
// escaped by inType, a slash, and the idempotency key; if that is a CommandID with a scope (see
// [WithScope]), a zero byte and the scope follow. It is stored as JSON.
//
// Invariant: if Error is set the other fields are not.
type done struct {
	AggregateID string           `json:"aggregate_id,omitempty"`
	Version     mainstem.Version `json:"version,omitempty"`
	Data        json.RawMessage  `json:"data,omitempty"`
	Error       string           `json:"error,omitempty"`
}

// inType escapes the command type in the key of a record, so that the first slash of the key ends it.
var inType = strings.NewReplacer("%", "%25", "/", "%2F")

// EarlierError is the error of a command whose earlier error was recorded under the same
// idempotency key; see [IdempotencyOptions].
type EarlierError struct {
	Command string // its type
	Key     string
	Message string // text of the earlier error
}

// Error has the text of the earlier error.
func (e *EarlierError) Error() string {
	return fmt.Sprintf("command %s with idempotency key %.100q was refused before: %s", e.Command, e.Key, e.Message)
}

// Idempotency makes a command take effect at most once for each key. The key is the command's
// IdempotencyKey, else the CommandID of its [Base]. A command with neither is handled each time:
// two commands with equal fields may both be meant. [WithScope] bounds where a CommandID is unique.
//
// The record of a command is part of its commit, on condition that there is none. Within the TTL, a
// later command of the same type and key returns the first Result with Duplicate set and Data as
// JSON (see [DataOf]); its handler is not called. Of two concurrent commands both may be handled,
// but only one is committed; the other returns the Result of the first. If the other is joined to an
// outer command it fails with Conflict instead, since its handler may have written into the batch of
// the outer command; see [Join]. One commit takes one command of each type and key: a second one
// that is joined to it is Invalid, and so fails all of the commit.
//
// A command that fails leaves no record and may be sent again, unless KeepErrors is set. Then the
// error is recorded in a commit of its own. Errors that do not come from the command itself are not
// recorded: a Conflict with another writer (that with a sealed stream is recorded), the kinds
// Canceled, Unavailable, Closed and Corrupt, an unknown outcome, the end of a context, also of one
// that [Timeout] has made, and a [*HandlerNotFoundError], since another process may have the handler.
func Idempotency(o IdempotencyOptions) Middleware {
	if o.TTL <= 0 {
		o.TTL = 24 * time.Hour
	}
	o.Skip = slices.Clone(o.Skip)
	return func(next Handler) Handler {
		return func(ctx context.Context, cmd Command) (Result, error) {
			at := attemptOf(ctx)
			key, isID := idempotencyKey(cmd)
			if at == nil || key == "" || slices.Contains(o.Skip, cmd.CommandType()) {
				return next(ctx, cmd)
			}
			once := once{options: &o, at: at, cmd: cmd, key: key, record: inType.Replace(cmd.CommandType()) + "/" + key}
			if isID && at.scope != "" {
				once.record += "\x00" + at.scope
			}
			return once.handle(ctx, next)
		}
	}
}

// idempotencyKey returns the key of cmd, or "", and whether it is its CommandID.
func idempotencyKey(cmd Command) (key string, isID bool) {
	if c, ok := cmd.(IdempotentCommand); ok {
		if key := c.IdempotencyKey(); key != "" {
			return key, false
		}
	}
	return baseOf(cmd).CommandID, true
}

// once is the dispatch of one command with a key.
type once struct {
	options *IdempotencyOptions
	at      *attempt // the first one; Retry may make others
	cmd     Command
	key     string
	record  string // key of its idempotency record
	tries   int    // how often remember was called
}

// handle returns the recorded result if there is one, else calls next with the hook that adds the
// record.
func (o *once) handle(ctx context.Context, next Handler) (Result, error) {
	if err := o.unwritten(o.at.batch); err != nil {
		return Result{}, err
	}
	if r, found, err := o.earlier(ctx); found || err != nil {
		return r, err
	}
	BeforeCommit(ctx, o.remember)
	r, err := next(ctx, o.cmd)
	if err == nil {
		return r, nil
	}
	// The same command may have been committed elsewhere meanwhile: then this commit was a
	// conflict, or the handler saw a state that already contains the effects of the command.
	earlier, found, lookup := o.earlier(ctx)
	switch {
	case found && lookup == nil && o.at.joined: // the outer command must not commit what next wrote into its batch
		return r, mainstem.Refusef(mainstem.KindConflict, "dispatch", "command %s with idempotency key %.100q was carried out elsewhere while it was handled here, as a part of another command", o.cmd.CommandType(), o.key)
	case found:
		return earlier, lookup
	case errors.Is(err, errDuplicate): // the record was found, and has expired since
		return r, &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "dispatch", Outcome: mainstem.NotWritten, Err: errors.Join(err, lookup)}
	}
	return r, o.refused(ctx, err)
}

// earlier returns the result, or the error, that was recorded for the command.
func (o *once) earlier(ctx context.Context) (Result, bool, error) {
	e, err := o.at.bus.done.Get(ctx, o.record)
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

// unwritten returns an error if b writes the record. The condition that there is none would hold for
// a second write of it too, since conditions are tested against the state before the batch.
func (o *once) unwritten(b *mainstem.Batch) error {
	if _, _, found, _ := o.at.bus.done.Pending(b, o.record); found {
		return mainstem.Refusef(mainstem.KindInvalid, "dispatch", "command %s with idempotency key %.100q is part of this commit already", o.cmd.CommandType(), o.key)
	}
	return nil
}

// remember is the hook that adds the record to the commit. A try after the first one looks for a
// record before, because its commit would conflict with that record again and again.
func (o *once) remember(ctx context.Context, b *mainstem.Batch, r *Result) error {
	if o.tries++; o.tries > 1 {
		if _, found, err := o.earlier(ctx); found || err != nil {
			return errors.Join(errDuplicate, err)
		}
	}
	if err := o.unwritten(b); err != nil { // by a command of this type and key that the handler has joined
		return err
	}
	d := done{AggregateID: r.AggregateID, Version: r.Version}
	if r.Data != nil {
		var err error
		if d.Data, err = json.Marshal(r.Data); err != nil {
			return mainstem.Refusef(mainstem.KindInvalid, "command", "command %s: its result cannot be remembered: %w", o.cmd.CommandType(), err)
		}
	}
	o.at.bus.done.CreateTo(b, o.record, d, kv.TTL(o.options.TTL))
	return nil
}

// refused records err if KeepErrors is set and err is not passing. It returns err, joined with the
// error of recording it.
func (o *once) refused(ctx context.Context, err error) error {
	if !o.options.KeepErrors || err.Error() == "" || ctx.Err() != nil || passing(err) {
		return err
	}
	_, failed := o.at.bus.done.Create(ctx, o.record, done{Error: err.Error()}, kv.TTL(o.options.TTL))
	if errors.Is(failed, mainstem.ErrExists) || errors.Is(failed, mainstem.ErrConflict) {
		failed = nil // another command with the same key was recorded first
	}
	return errors.Join(err, failed)
}

// passing reports whether err comes from another writer, from the log, from a context or from a
// missing handler, so that the same command may succeed later.
func passing(err error) bool {
	switch mainstem.KindOf(err) {
	case mainstem.KindConflict:
		return !isSealed(err)
	case mainstem.KindCanceled, mainstem.KindUnavailable, mainstem.KindClosed, mainstem.KindCorrupt:
		return true
	}
	var missing *HandlerNotFoundError
	return errors.As(err, &missing) || errors.Is(err, mainstem.ErrUnknownOutcome) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
