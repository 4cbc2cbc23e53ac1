package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem/event"
)

// Validation refuses commands whose Validate returns an error, before their handler is called; those that are no
// [ValidatedCommand] pass. The error is a [*ValidationError], or several joined, each with the command's type.
func Validation() Middleware {
	return func(next Handler) Handler {
		return func(ctx context.Context, cmd Command) (Result, error) {
			if c, ok := cmd.(ValidatedCommand); ok {
				if err := c.Validate(); err != nil {
					return Result{}, validationError(cmd.CommandType(), err)
				}
			}
			return next(ctx, cmd)
		}
	}
}

// validationError makes ValidationErrors of err, one for each error that it joins.
func validationError(command string, err error) error {
	if v, ok := err.(*ValidationError); ok { //nolint:errorlint // what is wrapped in others keeps their text
		named := *v
		if named.Command == "" {
			named.Command = command
		}
		return &named
	}
	joined, ok := err.(interface{ Unwrap() []error }) //nolint:errorlint // as above
	if !ok {
		return &ValidationError{Command: command, Message: err.Error(), Err: err}
	}
	var all []error
	for _, one := range joined.Unwrap() {
		all = append(all, validationError(command, one))
	}
	return errors.Join(all...)
}

// Recovery turns a panic of what comes after it into a [*PanicError].
func Recovery() Middleware {
	return func(next Handler) Handler {
		return func(ctx context.Context, cmd Command) (r Result, err error) {
			defer func() {
				if v := recover(); v != nil {
					r, err = Result{}, &PanicError{Command: cmd.CommandType(), Value: v, Stack: debug.Stack()}
				}
			}()
			return next(ctx, cmd)
		}
	}
}

// Logging logs each command when it has ended: at Info, with its duration, at Error if it
// failed. Nil means slog.Default.
func Logging(logger *slog.Logger) Middleware {
	if logger == nil {
		logger = slog.Default()
	}
	return func(next Handler) Handler {
		return func(ctx context.Context, cmd Command) (Result, error) {
			began := time.Now()
			r, err := next(ctx, cmd)
			attrs := []slog.Attr{slog.String("command", cmd.CommandType()), slog.Duration("duration", time.Since(began))}
			if id := baseOf(cmd).CommandID; id != "" {
				attrs = append(attrs, slog.String("id", id))
			}
			if err != nil {
				logger.LogAttrs(ctx, slog.LevelError, "command failed", append(attrs, slog.Any("err", err))...)
				return r, err
			}
			if r.AggregateID != "" {
				attrs = append(attrs, slog.String("aggregate", r.AggregateID), slog.Uint64("version", uint64(r.Version)))
			}
			if r.Duplicate {
				attrs = append(attrs, slog.Bool("duplicate", true))
			}
			logger.LogAttrs(ctx, slog.LevelInfo, "command handled", attrs...)
			return r, nil
		}
	}
}

// Timeout cancels the context of what comes after it when d has passed. A call that waits for that context gets
// an error that names the command and d. d of 0 or less does nothing.
func Timeout(d time.Duration) Middleware {
	return func(next Handler) Handler {
		if d <= 0 {
			return next
		}
		return func(ctx context.Context, cmd Command) (Result, error) {
			late := fmt.Errorf("command %s took longer than %v: %w", cmd.CommandType(), d, context.DeadlineExceeded)
			ctx, cancel := context.WithTimeoutCause(ctx, d, late)
			defer cancel()
			return next(ctx, cmd)
		}
	}
}

// Value gives the context of what comes after it a value.
func Value(key, value any) Middleware {
	return func(next Handler) Handler {
		return func(ctx context.Context, cmd Command) (Result, error) {
			return next(context.WithValue(ctx, key, value), cmd)
		}
	}
}

// If applies a middleware to the commands for which the condition holds.
func If(condition func(Command) bool, m Middleware) Middleware {
	return func(next Handler) Handler {
		with := m(next)
		return func(ctx context.Context, cmd Command) (Result, error) {
			if condition(cmd) {
				return with(ctx, cmd)
			}
			return next(ctx, cmd)
		}
	}
}

// For applies a middleware to the commands of some types.
func For(types []string, m Middleware) Middleware {
	types = slices.Clone(types)
	return If(func(cmd Command) bool { return slices.Contains(types, cmd.CommandType()) }, m)
}

// CorrelationID gives commands that have no correlation ID one from new; nil means [event.NewID].
// One that the context has from outside is kept.
func CorrelationID(new func() string) Middleware {
	if new == nil {
		new = func() string { return event.NewID().String() }
	}
	return func(next Handler) Handler {
		return func(ctx context.Context, cmd Command) (Result, error) {
			if event.MetadataFrom(ctx).CorrelationID == "" {
				ctx = event.WithMetadata(ctx, event.Metadata{CorrelationID: new()})
			}
			return next(ctx, cmd)
		}
	}
}

// CausationID gives events the command's CausationID as their causation, where the command has
// one, in place of the CommandID.
func CausationID() Middleware {
	return func(next Handler) Handler {
		return func(ctx context.Context, cmd Command) (Result, error) {
			if id := baseOf(cmd).CausationID; id != "" {
				ctx = event.WithMetadata(ctx, event.Metadata{CausationID: id})
			}
			return next(ctx, cmd)
		}
	}
}

// Tenant gives commands the tenant that extract finds, "" for none. If it is required, a command
// without is refused with a [*ValidationError] about the field tenant, unless the context has one.
func Tenant(extract func(ctx context.Context, cmd Command) string, required bool) Middleware {
	return func(next Handler) Handler {
		return func(ctx context.Context, cmd Command) (Result, error) {
			if id := extract(ctx, cmd); id != "" {
				ctx = event.WithMetadata(ctx, event.Metadata{TenantID: id})
			} else if required && event.MetadataFrom(ctx).TenantID == "" {
				return Result{}, &ValidationError{Command: cmd.CommandType(), Field: "tenant", Message: "there is none"}
			}
			return next(ctx, cmd)
		}
	}
}

// WithActor returns a context whose commands are done by somebody: events carry the name as UserID, and
// the audit trail as Actor.
func WithActor(ctx context.Context, name string) context.Context {
	return event.WithMetadata(ctx, event.Metadata{UserID: name})
}
