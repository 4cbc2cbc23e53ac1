package rpc

import (
	"bufio"
	"context"
	"sync"

	"connectrpc.com/connect"
	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/message"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
	"google.golang.org/protobuf/types/known/durationpb"
)

// backupChunk is the size of a message of Backup, in bytes.
const backupChunk = 256 << 10

func (s *service) Snapshot(ctx context.Context, _ *pb.SnapshotRequest) (*pb.SnapshotResponse, error) {
	id, err := s.h.snapshots.open(ctx)
	if err != nil {
		return nil, failed(err)
	}
	return &pb.SnapshotResponse{Id: []byte(id), Lease: durationpb.New(s.h.o.SnapshotLease)}, nil
}

func (s *service) CloseSnapshot(_ context.Context, in *pb.CloseSnapshotRequest) (*pb.CloseSnapshotResponse, error) {
	if err := s.h.snapshots.close(in.Id); err != nil {
		return nil, failed(err)
	}
	return new(pb.CloseSnapshotResponse), nil
}

func (s *service) Backup(ctx context.Context, in *pb.BackupRequest, out *connect.ServerStream[pb.BackupResponse]) error {
	return s.backup(ctx, in, out.Send)
}

func (s *service) backup(ctx context.Context, _ *pb.BackupRequest, send func(*pb.BackupResponse) error) error {
	return s.stream(ctx, "backup", func(ctx context.Context) error {
		from, ok := s.log.(mainstem.Backuper)
		if !ok {
			return unsupported("backup")
		}
		w := bufio.NewWriterSize(chunks{send}, backupChunk)
		if err := from.Backup(ctx, w); err != nil {
			return err
		}
		return w.Flush()
	})
}

// chunks is a writer that sends one message for each write.
type chunks struct {
	send func(*pb.BackupResponse) error
}

func (c chunks) Write(p []byte) (int, error) {
	for n := 0; n < len(p); n += backupChunk {
		m := pb.BackupResponse{Data: p[n:min(n+backupChunk, len(p))]}
		if err := c.send(&m); err != nil {
			return n, err
		}
	}
	return len(p), nil
}

func (s *service) Check(ctx context.Context, in *pb.CheckRequest, out *connect.ServerStream[pb.CheckResponse]) error {
	return s.check(ctx, in, out.Send)
}

func (s *service) check(ctx context.Context, _ *pb.CheckRequest, send func(*pb.CheckResponse) error) error {
	return s.stream(ctx, "check", func(ctx context.Context) error {
		checker, ok := s.log.(mainstem.Checker)
		if !ok {
			return unsupported("check")
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		var mu sync.Mutex // a checker may call report from several goroutines
		var lost error    // error of sending
		stats, err := checker.Check(ctx, func(p mainstem.Problem) {
			mu.Lock()
			defer mu.Unlock()
			if lost != nil {
				return
			}
			if lost = send(&pb.CheckResponse{Problem: message.EncodeProblem(p)}); lost != nil {
				cancel(lost)
			}
		})
		if lost != nil {
			return lost
		}
		if err != nil {
			return err
		}
		return send(&pb.CheckResponse{Stats: message.EncodeCheckStats(stats)})
	})
}

func (s *service) Clock(ctx context.Context, in *pb.ClockRequest) (*pb.ClockResponse, error) {
	k, ok := s.log.(mainstem.ClockKeeper)
	if !ok {
		return nil, failed(unsupported("clock"))
	}
	ask := k.Clock
	if in.Accept {
		ask = k.AcceptClock
	}
	state, err := ask(ctx)
	if err != nil {
		return nil, failed(err)
	}
	return message.EncodeClock(state), nil
}

func (s *service) Info(context.Context, *pb.InfoRequest) (*pb.InfoResponse, error) {
	_, snapshots := s.log.(mainstem.Snapshotter)
	_, backup := s.log.(mainstem.Backuper)
	_, check := s.log.(mainstem.Checker)
	return &pb.InfoResponse{
		Version: s.h.o.Version, Engine: s.h.o.Engine,
		Snapshots: snapshots, Backup: backup, Check: check,
		Limits: message.EncodeLimits(s.h.o.Limits),
	}, nil
}
