package rpc_test

import (
	"bytes"
	"context"
	"iter"
	"log/slog"
	"sync/atomic"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/session"
	"github.com/mainstemdev/mainstem/wire/rpc"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
)

// The records of many keys come in one message with the end of the call, or in a stream if they
// are more than that holds.
func TestGetManyOfSessions(t *testing.T) {
	for _, tt := range []struct {
		name     string
		size     int // of each of three values
		messages int
	}{{"nothing", -1, 1}, {"small", 10, 1}, {"up to a message", 20 << 10, 1}, {"more than a message", 40 << 10, 2}} {
		t.Run(tt.name, func(t *testing.T) {
			log := model.New(nil)
			in := &pb.GetManyRequest{Space: "s"}
			for _, key := range []string{"a", "b", "c"} {
				if tt.size >= 0 {
					commit(t, log, key, bytes.Repeat([]byte(key), tt.size))
				}
				in.Keys = append(in.Keys, []byte(key), []byte(key+" is not there"))
			}
			if tt.size < 0 {
				commit(t, log, "another", nil)
			}
			r := serve(t, log, nil).session(t, wide)
			r.write(call(1, session.GetMany, in))
			var parts session.Parts
			var keys string
			messages := 0
			for flags := session.Flags(0); flags&session.End == 0; {
				h, p := r.answer(1)
				if flags = h.Flags; h.Type != session.TypeData {
					t.Fatalf("got a frame of type %d", h.Type)
				}
				if flags == session.End {
					break
				}
				whole, _, err := parts.Add(h.Flags, p)
				if err != nil {
					t.Fatal(err)
				}
				if !whole {
					continue
				}
				messages++
				m := new(pb.Records)
				if err := proto.Unmarshal(parts.Body, m); err != nil {
					t.Fatal(err)
				}
				for _, record := range m.Records {
					keys += string(record.Key)
					if want := bytes.Repeat(record.Key, tt.size); !bytes.Equal(record.Value, want) {
						t.Errorf("the value of %s has %d bytes, want %d", record.Key, len(record.Value), tt.size)
					}
				}
			}
			want := "abc"
			if tt.size < 0 {
				want = ""
			}
			if keys != want || messages != tt.messages {
				t.Errorf("the keys %q came in %d messages, want %q in %d", keys, messages, want, tt.messages)
			}
		})
	}
}

// The records of many keys come in a stream, which has memory of its own, if there is none for
// an answer because another client does not take its.
func TestGetManyWithoutMemoryForAnswers(t *testing.T) {
	log := model.New(nil)
	commit(t, log, "large", make([]byte, 50<<10))
	commit(t, log, "small", make([]byte, 5<<10))
	s := serve(t, log, &rpc.Options{MaxAnswers: 64 << 10})
	r := s.session(t, session.Windows{Call: 8 << 10, Session: 1 << 20})
	many := &pb.GetManyRequest{Space: "s", Keys: [][]byte{[]byte("small")}}
	r.write(call(1, session.GetMany, many))
	if h, p := r.answer(1); h.Type != session.TypeData || h.Flags != whole {
		t.Fatalf("got a frame of type %d with flags %x and %d bytes", h.Type, h.Flags, len(p))
	}
	r.write(call(2, session.Get, &pb.GetRequest{Space: "s", Key: []byte("large")}))
	r.answer(2)
	r.write(call(3, session.GetMany, many))
	if h, p := r.answer(3); h.Type != session.TypeData || h.Flags != session.First|session.Last || len(p) < 5<<10 {
		t.Fatalf("got a frame of type %d with flags %x and %d bytes", h.Type, h.Flags, len(p))
	}
	if h, _ := r.answer(3); h.Type != session.TypeData || h.Flags != session.End {
		t.Errorf("got a frame of type %d with flags %x", h.Type, h.Flags)
	}
}

// GetMany of a snapshot that panics leaves the snapshot to be closed.
func TestPanicLeavesTheSnapshot(t *testing.T) {
	behind := model.New(nil)
	log := &panickingSnapshots{Log: behind, snapshots: behind}
	commit(t, log, "k", nil)
	r := serve(t, log, &rpc.Options{Logger: slog.New(slog.DiscardHandler)}).session(t, wide)
	r.write(call(1, session.Snapshot, &pb.SnapshotRequest{}))
	_, p := r.answer(1)
	snapshot := new(pb.SnapshotResponse)
	if err := proto.Unmarshal(p, snapshot); err != nil {
		t.Fatal(err)
	}
	r.write(call(2, session.GetMany, &pb.GetManyRequest{Space: "s", Keys: [][]byte{[]byte("k")}, Snapshot: snapshot.Id}))
	r.wantError(2, mainstem.KindInternal, mainstem.NoOutcome)
	r.write(call(3, session.CloseSnapshot, &pb.CloseSnapshotRequest{Id: snapshot.Id}))
	if h, _ := r.answer(3); h.Type != session.TypeData || !log.closed.Load() {
		t.Errorf("got a frame of type %d, the snapshot of the log is closed: %t", h.Type, log.closed.Load())
	}
}

type panickingSnapshots struct {
	mainstem.Log
	snapshots mainstem.Snapshotter
	closed    atomic.Bool
}

func (l *panickingSnapshots) Snapshot(ctx context.Context) (mainstem.Snapshot, error) {
	s, err := l.snapshots.Snapshot(ctx)
	return panickingSnapshot{s, l}, err
}

type panickingSnapshot struct {
	mainstem.Snapshot
	log *panickingSnapshots
}

func (panickingSnapshot) GetMany(context.Context, string, [][]byte) iter.Seq2[mainstem.Record, error] {
	panic("get many")
}

func (s panickingSnapshot) Close() error {
	s.log.closed.Store(true)
	return s.Snapshot.Close()
}

func TestGetManyOfTooManyKeys(t *testing.T) {
	r := serve(t, nil, nil).session(t, session.Windows{Call: 1 << 20, Session: 1 << 24})
	r.write(call(1, session.GetMany, &pb.GetManyRequest{Space: "s", Keys: make([][]byte, mainstem.MaxGetKeys+1)}))
	r.wantError(1, mainstem.KindInvalid, mainstem.NoOutcome)
}
