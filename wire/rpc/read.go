package rpc

import (
	"context"
	"errors"
	"iter"
	"time"

	"connectrpc.com/connect"
	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/message"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// service answers calls from a log. It has one method for each method of the protocol file.
type service struct {
	log mainstem.Log
	h   *Handler
}

type (
	records      = iter.Seq2[mainstem.Record, error]
	recordStream = connect.ServerStream[pb.Records]
	sendRecords  = func(*pb.Records) error
)

// reader returns the source of a read: the log, or the snapshot that the request names.
func (s *service) reader(op string, snapshot []byte) (mainstem.Reader, func(), error) {
	if len(snapshot) == 0 {
		return s.log, func() {}, nil
	}
	return s.h.snapshots.use(op, snapshot)
}

func (s *service) Get(ctx context.Context, in *pb.GetRequest) (*pb.GetResponse, error) {
	r, release, err := s.reader("get", in.Snapshot)
	if err != nil {
		return nil, failed(err)
	}
	defer release()
	record, err := s.h.get(ctx, func(ctx context.Context) (mainstem.Record, error) { return r.Get(ctx, in.Space, in.Key) })
	if err != nil {
		return nil, failed(err)
	}
	return &pb.GetResponse{Record: message.EncodeRecord(record)}, nil
}

func (s *service) Head(ctx context.Context, in *pb.HeadRequest) (*pb.HeadResponse, error) {
	r, release, err := s.reader("head", in.Snapshot)
	if err != nil {
		return nil, failed(err)
	}
	defer release()
	head, err := r.Head(ctx)
	if err != nil {
		return nil, failed(err)
	}
	return &pb.HeadResponse{Head: uint64(head)}, nil
}

func (s *service) GetMany(ctx context.Context, in *pb.GetManyRequest, out *recordStream) error {
	return s.getMany(ctx, in, out.Send, true)
}

// pumpMany is GetMany for more records than fit in one message.
func (s *service) pumpMany(ctx context.Context, in *pb.GetManyRequest, send sendRecords) error {
	return s.getMany(ctx, in, send, false)
}

func (s *service) getMany(ctx context.Context, in *pb.GetManyRequest, send sendRecords, mayBeOne bool) error {
	return s.stream(ctx, "get many", func(ctx context.Context) error {
		r, release, err := s.reader("get many", in.Snapshot)
		if err != nil {
			return err
		}
		defer release()
		open := func(ctx context.Context, _ bool) records { return found(r.GetMany(ctx, in.Space, in.Keys)) }
		if mayBeOne {
			if done, err := sendOne(ctx, &s.h.memory, send, open(ctx, false)); done {
				return err
			}
		}
		return pump(ctx, &s.h.memory, linger, send, source{open: open})
	})
}

// found filters out the records that stand for keys without a live value.
func found(all records) records {
	return func(yield func(mainstem.Record, error) bool) {
		for r, err := range all {
			if (err != nil || r.Version != 0) && !yield(r, err) {
				return
			}
		}
	}
}

func (s *service) Scan(ctx context.Context, in *pb.ScanRequest, out *recordStream) error {
	return s.scan(ctx, in, out.Send)
}

func (s *service) scan(ctx context.Context, in *pb.ScanRequest, send sendRecords) error {
	return s.stream(ctx, "scan", func(ctx context.Context) error {
		rng, err := message.DecodeRange(in)
		if err != nil {
			return err
		}
		r, release, err := s.reader("scan", in.Snapshot)
		if err != nil {
			return err
		}
		defer release()
		return pump(ctx, &s.h.memory, linger, send, source{
			open: func(ctx context.Context, _ bool) records { return r.Scan(ctx, in.Space, rng) },
		})
	})
}

func (s *service) Read(ctx context.Context, in *pb.ReadRequest, out *recordStream) error {
	return s.read(ctx, in, out.Send)
}

func (s *service) read(ctx context.Context, in *pb.ReadRequest, send sendRecords) error {
	return s.stream(ctx, "read", func(ctx context.Context) error {
		v, err := message.DecodeVersions(in)
		if err == nil {
			err = v.Validate()
		}
		if err != nil {
			return err
		}
		r, release, err := s.reader("read", in.Snapshot)
		if err != nil {
			return err
		}
		defer release()
		if v.Follow && len(in.Snapshot) == 0 {
			if err := s.announce(ctx, in.Space, send); err != nil {
				return err
			}
		}
		return pump(ctx, &s.h.memory, lingerOf(v.Follow), send, s.versions(r, in, v))
	})
}

func (s *service) Feed(ctx context.Context, in *pb.FeedRequest, out *recordStream) error {
	return s.feed(ctx, in, out.Send)
}

func (s *service) feed(ctx context.Context, in *pb.FeedRequest, send sendRecords) error {
	return s.stream(ctx, "feed", func(ctx context.Context) error {
		f, err := message.DecodeFilter(in)
		if err == nil {
			err = f.Validate()
		}
		if err != nil {
			return err
		}
		r, release, err := s.reader("feed", in.Snapshot)
		if err != nil {
			return err
		}
		defer release()
		if f.Follow && len(in.Snapshot) == 0 {
			if err := s.announce(ctx, "", send); err != nil {
				return err
			}
		}
		return pump(ctx, &s.h.memory, lingerOf(f.Follow), send, feed(r, f))
	})
}

// announce sends a follower the first message at once. It has the data by which the follower can
// check later that it resumes on the same log and the same space.
func (s *service) announce(ctx context.Context, space string, send sendRecords) error {
	head, err := s.log.Head(ctx)
	if err != nil {
		return err
	}
	following := &pb.Following{Head: uint64(head)}
	if space != "" {
		info, err := s.log.Space(ctx, space)
		if err != nil {
			return err
		}
		following.SpaceCreated = timestamppb.New(info.Created)
	}
	return send(&pb.Records{Following: following})
}

func lingerOf(follow bool) time.Duration {
	if follow {
		return 0
	}
	return linger
}

// stream runs f within the limit on streams, with a context that also ends when the handler is
// closed.
func (s *service) stream(ctx context.Context, op string, f func(context.Context) error) error {
	defer s.h.streams.Add(-1)
	if s.h.streams.Add(1) > int64(s.h.o.MaxStreams) {
		return failed(mainstem.Errorf(mainstem.KindUnavailable, op, "%d streams are being served: that is the limit", s.h.o.MaxStreams))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.h.stopping, func() { cancel(errStopping) })()
	hold := s.h.memory.streams.Hold()
	defer hold.Release()
	err := hold.Acquire(ctx, streamMemory)
	if err != nil {
		err = exhausted(err)
	} else {
		err = f(ctx)
	}
	if err != nil && errors.Is(context.Cause(ctx), errStopping) {
		return failed(stoppingError(op))
	}
	return failed(err)
}

// failed returns err, the error of a call that does not write, as an RPC error.
func failed(err error) error {
	if err == nil {
		return nil
	}
	var already *connect.Error
	if errors.As(err, &already) {
		return already // sending failed
	}
	return message.EncodeError(err, mainstem.NoOutcome)
}
