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

// Validation refuses a [ValidatedCommand] whose Validate returns an error, before its handler is
// called. Other commands pass. The error is a [*ValidationError] with the command's type, or
// several joined.
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

// validationError turns err into a ValidationError, and errors that err joins into one each.
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

// Recovery turns a panic of the handlers inside it into a [*PanicError].
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

// errNoReturn is the error of a command whose handler panicked or ended its goroutine.
var errNoReturn = errors.New("the handler did not return: it panicked, or ended its goroutine")

// observe calls next. If next does not return, it calls failed with errNoReturn. It does not recover
// from a panic, so that [Recovery] reports the stack of the handler.
func observe(ctx context.Context, next Handler, cmd Command, failed func(error)) (Result, error) {
	returned := false
	defer func() {
		if !returned {
			failed(errNoReturn)
		}
	}()
	r, err := next(ctx, cmd)
	returned = true
	return r, err
}

// Logging logs each command when it has ended: at Info with its duration, or at Error if it failed.
// A panic of the handlers inside it is a failure, and continues. A nil logger means slog.Default().
func Logging(logger *slog.Logger) Middleware {
	if logger == nil {
		logger = slog.Default()
	}
	return func(next Handler) Handler {
		return func(ctx context.Context, cmd Command) (Result, error) {
			began := time.Now()
			r, err := observe(ctx, next, cmd, func(err error) { logEnd(ctx, logger, cmd, began, Result{}, err) })
			logEnd(ctx, logger, cmd, began, r, err)
			return r, err
		}
	}
}

// logEnd logs the outcome of a command.
func logEnd(ctx context.Context, logger *slog.Logger, cmd Command, began time.Time, r Result, err error) {
	attrs := []slog.Attr{slog.String("command", cmd.CommandType()), slog.Duration("duration", time.Since(began))}
	if id := baseOf(cmd).CommandID; id != "" {
		attrs = append(attrs, slog.String("id", id))
	}
	if err != nil {
		logger.LogAttrs(ctx, slog.LevelError, "command failed", append(attrs, slog.Any("err", err))...)
		return
	}
	if r.AggregateID != "" {
		attrs = append(attrs, slog.String("aggregate", r.AggregateID), slog.Uint64("version", uint64(r.Version)))
	}
	if r.Duplicate {
		attrs = append(attrs, slog.Bool("duplicate", true))
	}
	logger.LogAttrs(ctx, slog.LevelInfo, "command handled", attrs...)
}

// Timeout cancels the context of the handlers inside it after d. The cause of the cancellation
// names the command and d, and is a context.DeadlineExceeded. If d is 0 or less Timeout does
// nothing.
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

// Value adds a value to the context of the handlers inside it.
func Value(key, value any) Middleware {
	return func(next Handler) Handler {
		return func(ctx context.Context, cmd Command) (Result, error) {
			return next(context.WithValue(ctx, key, value), cmd)
		}
	}
}

// If applies a middleware to the commands for which condition returns true.
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

// For applies a middleware to the commands of the given types.
func For(types []string, m Middleware) Middleware {
	types = slices.Clone(types)
	return If(func(cmd Command) bool { return slices.Contains(types, cmd.CommandType()) }, m)
}

// CorrelationID gives a command a correlation ID from new, unless the command or the context has
// one. A nil new means [event.NewID].
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

// CausationID makes events carry the command's CausationID in place of its CommandID, if the
// command has a CausationID.
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

// Tenant sets the tenant of a command to the result of extract; "" means none. If required is true,
// a command for which neither extract nor the context gives a tenant is refused with a
// [*ValidationError] for the field tenant.
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

// WithActor returns a context with the name of the user who sends commands: events carry it as
// UserID, and audit rows as Actor.
func WithActor(ctx context.Context, name string) context.Context {
	return event.WithMetadata(ctx, event.Metadata{UserID: name})
}
