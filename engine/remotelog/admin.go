package remotelog

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/message"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
)

// Info describes a server.
type Info struct {
	Version string // version of the server, for display
	Engine  string // engine of the server, for display

	Snapshots, Backup, Check bool // optional capabilities of the engine

	Limits mainstem.Limits

	// Transport is the one in use now: [Sessions] or [RPC].
	Transport Transport
	// HTTP is the protocol below RPC, "HTTP/1.1" or "HTTP/2.0"; empty with sessions.
	HTTP string
	// Fallback is why RPC is used although [Auto] prefers sessions: the answer of a server or a
	// proxy to the upgrade. It is empty if sessions are used, or were not requested.
	Fallback string
}

// Info asks the server for its description. It also serves to test whether the server can be
// reached.
func (l *Log) Info(ctx context.Context) (Info, error) {
	out, err := ask(ctx, l, call{op: "info"}, infoMethod, &pb.InfoRequest{}, ifLost)
	if err != nil {
		return Info{}, err
	}
	info := Info{
		Version: out.Version, Engine: out.Engine,
		Snapshots: out.Snapshots, Backup: out.Backup, Check: out.Check,
		Limits: message.DecodeLimits(out.Limits),
	}
	if info.Transport, info.Fallback = l.transportNow(); info.Transport == RPC {
		info.HTTP = l.doer.spoken()
	}
	return info, nil
}

// Clock implements [mainstem.ClockKeeper] for the clock of the server.
func (l *Log) Clock(ctx context.Context) (mainstem.ClockState, error) {
	out, err := ask(ctx, l, call{op: "clock"}, clockMethod, &pb.ClockRequest{}, ifLost)
	return message.DecodeClock(out), err
}

// AcceptClock implements [mainstem.ClockKeeper]: the log of the server accepts the clock of the
// server as right.
func (l *Log) AcceptClock(ctx context.Context) (mainstem.ClockState, error) {
	out, err := ask(ctx, l, call{op: "accept clock"}, clockMethod, &pb.ClockRequest{Accept: true}, never)
	return message.DecodeClock(out), err
}

// Backup writes a consistent copy of the server's log to w, in the format that Restore of its
// engine reads. If Backup fails, w does not hold a backup.
func (l *Log) Backup(ctx context.Context, w io.Writer) error {
	c := call{op: "backup"}
	return receive(ctx, l, c, backupMethod, &pb.BackupRequest{}, func(m *pb.BackupResponse) error {
		if _, err := w.Write(m.Data); err != nil {
			return c.fail(mainstem.KindUnavailable, mainstem.NoOutcome, fmt.Errorf("write the copy: %w", err))
		}
		return nil
	})
}

// Check verifies the log on the server and calls report for each inconsistency.
func (l *Log) Check(ctx context.Context, report func(mainstem.Problem)) (mainstem.CheckStats, error) {
	c := call{op: "check"}
	var stats *pb.CheckStats
	err := receive(ctx, l, c, checkMethod, &pb.CheckRequest{}, func(m *pb.CheckResponse) error {
		if m.Problem != nil {
			report(message.DecodeProblem(m.Problem))
		}
		if m.Stats != nil {
			stats = m.Stats
		}
		return nil
	})
	if err == nil && stats == nil {
		err = c.fail(mainstem.KindInternal, mainstem.NoOutcome, errors.New("the server ended the check without its counts"))
	}
	return message.DecodeCheckStats(stats), err
}
