package rpc

import (
	"context"
	"time"

	"github.com/mainstemdev/mainstem"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
)

// source is a sequence of records that a stream sends. It can be opened again where the stream
// has left it.
type source struct {
	// open opens the sequence after the last record for which passed was called. With follow it
	// then waits for further records.
	open func(ctx context.Context, follow bool) records
	// follows reports that the client asks for further records.
	follows bool
	// passed records that the stream has taken a record, and returns whether there may be more.
	// If it is nil, the sequence shows one moment and cannot be opened again.
	passed func(mainstem.Record) bool
}

// feed is the source of a feed.
func feed(r mainstem.Reader, f mainstem.Filter) source {
	limited := f.Limit > 0
	return source{
		follows: f.Follow,
		open: func(ctx context.Context, follow bool) records {
			f := f
			f.Follow = follow
			return r.Feed(ctx, f)
		},
		passed: func(r mainstem.Record) bool {
			f.After = r.Position
			f.Limit = max(f.Limit-1, 0)
			return !limited || f.Limit > 0
		},
	}
}

// versions is the source of the records of one key.
func (s *service) versions(r mainstem.Reader, in *pb.ReadRequest, v mainstem.Versions) source {
	limited := v.Limit > 0
	var last time.Time // commit time of the last record that was passed
	return source{
		follows: v.Follow,
		open: func(ctx context.Context, follow bool) records {
			if err := s.sameSpace(ctx, in, last); err != nil {
				return func(yield func(mainstem.Record, error) bool) { yield(mainstem.Record{}, err) }
			}
			v := v
			v.Follow = follow
			return r.Read(ctx, in.Space, in.Key, v)
		},
		passed: func(r mainstem.Record) bool {
			last = r.Time
			v.Limit = max(v.Limit-1, 0)
			more := !limited || v.Limit > 0
			if v.Reverse {
				v.To = r.First() - 1
				return more && v.To > 0 // 0 would mean no bound
			}
			v.From = r.Version + 1
			return more
		},
	}
}

// sameSpace returns an error if the space of a read was created after the last record that was
// read, which was committed at time last. Versions in the new space belong to other records.
func (s *service) sameSpace(ctx context.Context, in *pb.ReadRequest, last time.Time) error {
	if last.IsZero() || len(in.Snapshot) > 0 {
		return nil
	}
	info, err := s.log.Space(ctx, in.Space)
	if err == nil && info.Created.After(last) {
		err = mainstem.Errorf(mainstem.KindNotFound, "read", "the space was dropped while it was read").At(in.Space, nil)
	}
	return err
}
