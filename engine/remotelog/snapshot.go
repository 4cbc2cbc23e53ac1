package remotelog

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/mainstemdev/mainstem"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
)

// minRenewal is the shortest time between two renewals of a snapshot's lease.
const minRenewal = 10 * time.Millisecond

// snapshot is a snapshot that the server holds under a lease. A goroutine renews the lease until
// the snapshot or the Log is closed.
type snapshot struct {
	reader
	id     []byte
	closed atomic.Bool
	stop   context.CancelFunc // of the renewals
}

// Snapshot returns a view of the log at this moment. The server holds it until it is closed, or
// until this process does not renew its lease any more.
func (l *Log) Snapshot(ctx context.Context) (mainstem.Snapshot, error) {
	out, err := ask(ctx, l, call{op: "snapshot"}, snapshotMethod, &pb.SnapshotRequest{}, ifLost)
	if err != nil {
		return nil, err
	}
	s := &snapshot{id: out.Id}
	s.reader = reader{l: l, snapshot: s}
	ctx, s.stop = context.WithCancel(l.closing)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed { // Close may not wait for goroutines that begin now
		s.stop()
		return nil, call{op: "snapshot"}.closed(mainstem.NoOutcome)
	}
	l.background.Go(func() { s.renew(ctx, out.Lease.AsDuration()) })
	return s, nil
}

// renewEvery is the time between two renewals of a lease: one or two may be late, or get lost.
func renewEvery(lease time.Duration) time.Duration { return max(lease/3, minRenewal) }

// renew renews the lease of the snapshot until ctx ends.
func (s *snapshot) renew(ctx context.Context, lease time.Duration) {
	tick := time.NewTicker(cmp.Or(s.l.renewal, renewEvery(lease)))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			// Errors are ignored: the next read returns them.
			_, _ = ask(ctx, s.l, call{op: "renew snapshot"}, headMethod, &pb.HeadRequest{Snapshot: s.id}, never)
		}
	}
}

// Close releases the snapshot on the server. It may be called twice.
func (s *snapshot) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.stop()
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	_, err := ask(ctx, s.l, call{op: "close snapshot"}, closeSnapshotMethod, &pb.CloseSnapshotRequest{Id: s.id}, ifLost)
	if mainstem.KindOf(err) == mainstem.KindClosed {
		return nil // the Log is already closed: the lease ends by itself
	}
	return err
}
