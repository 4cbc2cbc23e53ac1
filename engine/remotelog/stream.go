package remotelog

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"
	"github.com/mainstemdev/mainstem"
)

// errEnough ends [receive] early, without an error.
var errEnough = errors.New("enough")

// receive calls each with every message of one stream, until it returns an error or
// the stream ends.
func receive[M any](ctx context.Context, l *Log, c call, open func(context.Context) (*connect.ServerStreamForClient[M], error), each func(*M) error) error {
	ctx, release := until(ctx, l.closing)
	defer release()
	if ctx.Err() != nil {
		return c.ended(ctx, mainstem.NoOutcome)
	}
	c.began = time.Now()
	t := new(try)
	stream, err := open(t.watch(ctx))
	if err != nil {
		return c.explain(ctx, t, err)
	}
	defer func() {
		release() // first, or closing could wait for what is still to come
		_ = stream.Close()
	}()
	for stream.Receive() {
		if err := each(stream.Msg()); errors.Is(err, errEnough) {
			return nil
		} else if err != nil {
			return err
		}
	}
	if err := stream.Err(); err != nil {
		if l.closing.Err() != nil {
			return c.closed(mainstem.NoOutcome) // and not that of the connection it closed
		}
		return c.explain(ctx, t, err)
	}
	return nil
}
