package producer

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/topic"
)

// gated is a log of which one commit returns late. It is written at once, or late too.
type gated struct {
	mainstem.Log
	mu      sync.Mutex
	hold    chan struct{} // the next commit is answered when it is closed
	written chan struct{} // closed when that commit was written
	before  bool          // it is not written until then either
}

// Commit implements [mainstem.Log].
func (g *gated) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	g.mu.Lock()
	hold, written := g.hold, g.written
	g.hold, g.written = nil, nil
	g.mu.Unlock()
	if hold != nil && g.before {
		<-hold
	}
	r, err := g.Log.Commit(ctx, b)
	if hold != nil {
		close(written)
		<-hold
	}
	return r, err
}

// delay makes the next commit late.
func (g *gated) delay() (written <-chan struct{}, release func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hold, g.written = make(chan struct{}), make(chan struct{})
	hold := g.hold
	return g.written, func() { close(hold) }
}

// TestSnapshotOvertakesCommit checks that the head of a snapshot is not above a batch whose commit
// is under way, and that recovery passes over batches that a snapshot includes.
func TestSnapshotOvertakesCommit(t *testing.T) {
	g := &gated{Log: testengines.Memory(t)}
	f := newFixtureOn(t, g)
	f.o.SnapshotEvery = 7
	f.reopen(true)
	tp := f.topic("t", 1)
	slow, quick := f.init(""), f.init("")
	for i := range int32(6) {
		f.want(f.append(tp, 0, batch(quick, i, false, "q")), nil, int64(i))
	}
	written, release := g.delay()
	done := make(chan Append)
	go func() { done <- f.append(tp, 0, batch(slow, 0, false, "s")) }()
	<-written
	f.want(f.append(tp, 0, batch(quick, 6, false, "q")), nil, 7)
	f.want(f.append(tp, 0, batch(quick, 7, false, "q")), nil, 8)
	if got := f.m.partition(tp, 0).saved.batches; got != 1 {
		t.Fatalf("%d batches since the last snapshot, want one to have gone with the last batch", got)
	}
	// Now the process ends: only the log is left.
	first := f.m
	var err error
	if f.m, err = Open(t.Context(), f.catalog, &f.o); err != nil {
		t.Fatal(err)
	}
	f.want(f.append(tp, 0, batch(slow, 0, false, "s")), nil, 6)
	for i := int32(3); i < 6; i++ {
		f.want(f.append(tp, 0, batch(quick, i, false, "q")), nil, int64(i))
	}
	f.want(f.append(tp, 0, batch(quick, 6, false, "q")), nil, 7)
	f.want(f.append(tp, 0, batch(quick, 9, false, "q")), kerr.OutOfOrderSequenceNumber, -1)
	release()
	f.want(<-done, nil, 6)
	first.stop()
}

// TestFailedSnapshot checks that the contents of a failed snapshot are in the next one.
func TestFailedSnapshot(t *testing.T) {
	for _, outcome := range []mainstem.Outcome{mainstem.NotWritten, mainstem.Unknown} {
		log := &failing{Log: testengines.Memory(t), outcome: outcome}
		f := newFixtureOn(t, log)
		f.o.SnapshotEvery = 2
		f.reopen(true)
		tp := f.topic("t", 1)
		p, q := f.init("x"), f.init("")
		f.want(f.txnAppend("x", true, tp, 0, batch(p, 0, true, "a")), nil, 0)
		f.ended("x", p, false, 5)
		log.n = 1
		f.want(f.append(tp, 0, batch(q, 0, false, "b")), kerr.KafkaStorageError, -1)
		for i := range int32(5) {
			f.want(f.append(tp, 0, batch(q, i, false, "b")), nil, int64(2+i))
		}
		f.reopen(false)
		tp, _ = f.catalog.Topic(t.Context(), "t")
		got, err := f.m.Aborted(t.Context(), tp, 0, 0, 100)
		if want := []Aborted{{p.pid, 0, 1}}; err != nil || !slices.Equal(got, want) {
			t.Errorf("after %v: aborted %v (%v), want %v", outcome, got, err, want)
		}
		f.want(f.append(tp, 0, batch(p, 0, false, "late")), kerr.InvalidProducerEpoch, -1)
	}
}

// TestSnapshotsKeepRecoveryShort checks that the head follows the end.
func TestSnapshotsKeepRecoveryShort(t *testing.T) {
	f := newFixture(t)
	f.o.SnapshotEvery = 10
	f.reopen(true)
	tp := f.topic("t", 1)
	p := f.init("")
	for i := range int32(100) {
		f.want(f.append(tp, 0, batch(p, i, false, "v")), nil, int64(i))
	}
	if part := f.m.partition(tp, 0); part.head < 85 {
		t.Errorf("recovery would begin at offset %d of %d", part.head, part.known)
	}
	for range 100 {
		f.append(tp, 0, plainBatch("v"))
	}
	f.upkeep()
	if part := f.m.partition(tp, 0); part.head != 200 {
		t.Errorf("after upkeep recovery would begin at offset %d, want 200", part.head)
	}
}

// TestUntrackedPartitions checks that there are no records of partitions without producer ids.
func TestUntrackedPartitions(t *testing.T) {
	f := newFixture(t)
	tp := f.topic("t", 1)
	f.want(f.append(tp, 0, plainBatch("v")), nil, 0)
	if got := f.stable(tp, 0); got != 1 {
		t.Errorf("last stable offset %d, want 1", got)
	}
	f.upkeep()
	f.reopen(true)
	for info, err := range f.log.Spaces(t.Context(), Space) {
		t.Errorf("there is a space %v (%v)", info.Name, err)
	}
	tp, err := f.catalog.Topic(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	p := f.init("")
	f.want(f.append(tp, 0, batch(p, 0, false, "v")), nil, 1)
	if part := f.m.partition(tp, 0); part.head != 1 {
		t.Errorf("recovery would begin at offset %d, want 1", part.head)
	}
}

// TestDroppedPartitionWaits checks that a dropped partition is not loaded while commits to it are
// under way.
func TestDroppedPartitionWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gated{Log: model.New(nil), before: true}
		bad := &failing{Log: g, outcome: mainstem.Unknown}
		f := newFixtureOn(t, bad)
		tp := f.topic("t", 1, topic.TimestampAfter, "9223372036854775807")
		slow, quick := f.init(""), f.init("")
		f.want(f.append(tp, 0, batch(quick, 0, false, "q")), nil, 0)
		_, release := g.delay()
		done := make(chan Append, 1)
		go func() { done <- f.append(tp, 0, batch(slow, 0, false, "s")) }()
		synctest.Wait()
		bad.n = 1
		f.want(f.append(tp, 0, batch(quick, 1, false, "q")), kerr.KafkaStorageError, -1)
		stable := make(chan int64, 1)
		go func() { stable <- f.stable(tp, 0) }()
		synctest.Wait()
		release()
		f.want(<-done, nil, 1)
		<-stable
		f.want(f.append(tp, 0, batch(slow, 0, false, "s")), nil, 1)
		f.want(f.append(tp, 0, batch(quick, 1, false, "q")), nil, 2)
	})
}

// TestDroppedPartitionWaitsForUpkeep checks the same for a snapshot of upkeep: committed late, it
// would overwrite newer states of producers, which are not dirty any more.
func TestDroppedPartitionWaitsForUpkeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gated{Log: model.New(nil), before: true}
		bad := &failing{Log: g, outcome: mainstem.Unknown}
		f := newFixtureOn(t, bad)
		f.o.SnapshotEvery = 2
		f.reopen(true)
		tp := f.topic("t", 1, topic.TimestampAfter, "9223372036854775807")
		p, q := f.init(""), f.init("")
		f.want(f.append(tp, 0, batch(p, 0, false, "p")), nil, 0)
		_, release := g.delay()
		kept := make(chan error, 1)
		go func() { kept <- f.m.Upkeep(t.Context()) }()
		synctest.Wait()
		bad.n = 1
		f.want(f.append(tp, 0, batch(q, 0, false, "q")), kerr.KafkaStorageError, -1)
		var next sync.WaitGroup
		next.Go(func() {
			for i := range int32(2) {
				f.want(f.append(tp, 0, batch(p, 1+i, false, "p")), nil, int64(1+i))
			}
			for i := range int32(2) { // a snapshot with the second
				f.want(f.append(tp, 0, batch(q, i, false, "q")), nil, int64(3+i))
			}
		})
		synctest.Wait()
		release()
		if err := <-kept; err != nil {
			t.Error(err)
		}
		next.Wait()
		for i := range int32(4) { // and snapshots without the other producer, which is not dirty
			f.want(f.append(tp, 0, batch(q, 2+i, false, "q")), nil, int64(5+i))
		}
		f.reopen(false)
		tp, _ = f.catalog.Topic(t.Context(), "t")
		f.want(f.append(tp, 0, batch(p, 2, false, "p")), nil, 2)
		f.want(f.append(tp, 0, batch(p, 4, false, "p")), kerr.OutOfOrderSequenceNumber, -1)
	})
}

// TestNoSnapshotOfDroppedPartition checks that an append that was under way when the partition was
// dropped adds no snapshot: the partition has no producers in memory.
func TestNoSnapshotOfDroppedPartition(t *testing.T) {
	f := newFixture(t)
	f.o.SnapshotEvery = 2
	f.reopen(true)
	tp := f.topic("t", 1)
	p, q := f.init(""), f.init("")
	f.want(f.append(tp, 0, batch(p, 0, false, "p")), nil, 0)
	f.want(f.append(tp, 0, batch(p, 1, false, "p")), nil, 1)
	part := f.m.partition(tp, 0)
	var k ticket
	if err := part.enter(t.Context(), &k, tp, q.pid); err != nil {
		t.Fatal(err)
	}
	part.mu.Lock()
	part.dropLocked()
	part.mu.Unlock()
	b := mainstem.NewBatch()
	if k.ride(b); b.Len() > 0 {
		if _, err := f.log.Commit(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	k.leave(nil)
	f.want(f.append(tp, 0, batch(p, 1, false, "p")), nil, 1)
	f.want(f.append(tp, 0, batch(p, 3, false, "p")), kerr.OutOfOrderSequenceNumber, -1)
}

// TestStableDoesNotFall checks that the last stable offset does not fall when a transaction begins
// that has read the end of the partition before others appended.
func TestStableDoesNotFall(t *testing.T) {
	f := newFixture(t)
	tp := f.topic("t", 1)
	p := f.init("x")
	var k ticket
	if err := f.m.partition(tp, 0).enter(t.Context(), &k, tp, p.pid); err != nil {
		t.Fatal(err)
	}
	end, err := tp.End(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	f.want(f.append(tp, 0, plainBatch("a", "b")), nil, 0)
	if got := f.stable(tp, 0); got != 2 {
		t.Fatalf("last stable offset %d, want 2", got)
	}
	k.hold(end)
	if got := f.stable(tp, 0); got != 2 {
		t.Errorf("last stable offset %d, want 2 still", got)
	}
	f.want(f.append(tp, 0, plainBatch("c")), nil, 2)
	if got := f.stable(tp, 0); got != 2 {
		t.Errorf("last stable offset %d, want 2: a transaction may have begun there", got)
	}
	k.leave(nil)
	if got := f.stable(tp, 0); got != 3 {
		t.Errorf("last stable offset %d, want 3: none did", got)
	}
}
