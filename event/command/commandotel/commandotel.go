// Package commandotel traces the commands of a bus with OpenTelemetry.
//
//	bus, err := command.Open(log, "shop", nil, commandotel.Tracing(nil), command.Validation())
//
// # Concurrency
//
// The middleware is safe for concurrent use.
//
//snippet:var log mainstem.Log
package commandotel

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/mainstemdev/mainstem/event/command"
)

const scope = "github.com/mainstemdev/mainstem/event/command/commandotel"

// Tracing returns a middleware that makes a span "command.TYPE" for each command, as a child of the
// span of the context. Its attributes are command.id, command.aggregate_id,
// command.aggregate_version and command.duplicate, as far as they are known. A failed command has
// the status Error and its error recorded; a panic is a failure, and continues. A nil provider means
// the global one of OpenTelemetry.
func Tracing(p trace.TracerProvider) command.Middleware {
	if p == nil {
		p = otel.GetTracerProvider()
	}
	tracer := p.Tracer(scope)
	return func(next command.Handler) command.Handler {
		return func(ctx context.Context, cmd command.Command) (command.Result, error) {
			ctx, span := tracer.Start(ctx, "command."+cmd.CommandType())
			defer span.End() // records a panic, without a status
			returned := false
			defer func() {
				if !returned {
					span.SetStatus(codes.Error, "the handler did not return")
				}
			}()
			if c, ok := cmd.(interface{ CommandBase() command.Base }); ok && c.CommandBase().CommandID != "" {
				span.SetAttributes(attribute.String("command.id", c.CommandBase().CommandID))
			}
			r, err := next(ctx, cmd)
			returned = true
			if r.AggregateID != "" {
				span.SetAttributes(attribute.String("command.aggregate_id", r.AggregateID), attribute.Int64("command.aggregate_version", int64(r.Version)))
			}
			if r.Duplicate {
				span.SetAttributes(attribute.Bool("command.duplicate", true))
			}
			if err != nil {
				span.RecordError(err)
				span.SetStatus(codes.Error, err.Error())
			}
			return r, err
		}
	}
}
