package group

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/wire/kafka/internal/coord"
)

// beforeNext makes the next commit of the log call f first.
func (w *world) beforeNext(f func()) {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	w.log.before = f
}

// removals are the ways in which a group without offsets is removed from the log.
var removals = map[string]func(t *testing.T, w *world, group string){
	"sweep": func(t *testing.T, w *world, _ string) {
		if err := w.Sweep(ctx); err != nil {
			t.Error(err)
		}
	},
	"delete": func(t *testing.T, w *world, group string) {
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{group}
		wantCode(t, "delete", w.DeleteGroups(ctx, coord.Client{}, req).Groups[0].ErrorCode, nil)
	},
}

// hasHeader reports whether the header of a group is stored.
func (w *world) hasHeader(group string) bool {
	_, err := w.log.Get(ctx, partition.GroupSpace, groupKey(group))
	return err == nil
}

// An offset that is committed while its group is removed is never left without a header: it would
// not expire.
func TestCommitDuringRemoval(t *testing.T) {
	for name, remove := range removals {
		t.Run(name+" that began after the check of the member", func(t *testing.T) {
			w := newWorld(t, Options{})
			w.topics.create("t", 1)
			wantCode(t, "commit", w.commit(commitRequest("g", "t", 0, -1)), nil) // a header without offsets
			removing, committed, removed := make(chan struct{}), make(chan struct{}), make(chan struct{})
			w.beforeNext(func() { // of the commit of the offset
				w.beforeNext(func() { // of the first commit of the removal, which has listed the offsets
					close(removing)
					<-committed
				})
				go func() {
					defer close(removed)
					remove(t, w, "g")
				}()
				<-removing
			})
			wantCode(t, "commit", w.commit(commitRequest("g", "t", 0, 7)), nil)
			close(committed)
			<-removed
			switch got := w.fetch("g", "t", 0); {
			case got != -1 && !w.hasHeader("g"):
				t.Errorf("the offset %d has no header", got)
			case name == "sweep" && got != 7:
				t.Errorf("the sweep left the offset %d, want 7", got)
			}
		})
		t.Run(name+" between the check of the member and the commit", func(t *testing.T) {
			w := newWorld(t, Options{})
			w.topics.create("t", 1)
			wantCode(t, "commit", w.commit(commitRequest("g", "t", 0, -1)), nil)
			w.beforeNext(func() { remove(t, w, "g") })
			wantCode(t, "commit", w.commit(commitRequest("g", "t", 0, 7)), nil)
			if got := w.fetch("g", "t", 0); got != 7 || !w.hasHeader("g") {
				t.Errorf("the offset is %d, with a header: %v; want 7 with one", got, w.hasHeader("g"))
			}
		})
	}
}

// An operator who removes a group while an offset is committed leaves no offset without a header.
func TestCommitDuringDelete(t *testing.T) {
	w := newWorld(t, Options{})
	w.topics.create("t", 1)
	wantCode(t, "commit", w.commit(commitRequest("g", "t", 0, -1)), nil)
	s, err := Read(ctx, w.log, w.topics, "g")
	if err != nil {
		t.Fatal(err)
	}
	w.beforeNext(func() { wantCode(t, "commit", w.commit(commitRequest("g", "t", 0, 7)), nil) })
	if err := s.Delete(ctx); err != nil {
		t.Error(err)
	}
	if got := w.fetch("g", "t", 0); got != -1 && !w.hasHeader("g") {
		t.Errorf("the offset %d has no header", got)
	}
}

// A commit of offsets with ExistsTo fails if the group was removed since, and only then.
func TestExistsTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, remove := range removals {
			w := newWorld(t, Options{})
			id := w.topics.create("t", 1)
			commit := func(again bool, meanwhile func()) error {
				b := mainstem.NewBatch()
				if err := w.ExistsTo(ctx, b, "g", again); err != nil {
					t.Fatal(err)
				}
				partition.NewOffsets(w.log, "g", "t", id).CommitOffsetTo(b, 0, topic.Offset{Next: 7})
				meanwhile()
				_, err := w.log.Commit(ctx, b)
				return err
			}
			if err := commit(false, func() { remove(t, w, "g") }); !errors.Is(err, mainstem.ErrConflict) {
				t.Errorf("%s: a commit after the removal: %v", name, err)
			}
			a := w.member("g")
			if err := commit(true, func() { together(t, a) }); !errors.Is(err, mainstem.ErrConflict) {
				t.Errorf("%s: a commit after the first generation: %v", name, err)
			}
			if err := commit(true, func() { a.protocol["range"] = "new"; together(t, a) }); err != nil {
				t.Errorf("%s: a commit after a rebalance: %v", name, err)
			}
			wantCode(t, "forget", w.commit(func() *kmsg.OffsetCommitRequest {
				req := commitRequest("g", "t", 0, -1)
				req.MemberID, req.Generation = a.id, a.gen
				return req
			}()), nil)
			if err := commit(false, func() { a.leave(); remove(t, w, "g") }); !errors.Is(err, mainstem.ErrConflict) {
				t.Errorf("%s: a commit after the last member has left and the removal: %v", name, err)
			}
			if err := commit(true, func() {}); err != nil || !w.hasHeader("g") {
				t.Errorf("%s: a commit anew: %v, with a header: %v", name, err, w.hasHeader("g"))
			}
		}
	})
}

// A sweep of more groups than MaxGroups leaves room in memory for others.
func TestSweepOfManyGroups(t *testing.T) {
	w := newWorld(t, Options{})
	w.topics.create("t", 1)
	for n := range 20 {
		wantCode(t, "commit", w.commit(commitRequest(fmt.Sprint("g", n), "t", 0, 7)), nil)
	}
	w.o.MaxGroups = 5
	w.reopen()
	if err := w.Sweep(ctx); err != nil {
		t.Error(err)
	}
	if n := len(w.all()); n > 0 {
		t.Errorf("%d groups in memory that nobody uses", n)
	}
	wantCode(t, "join", w.member("new").join().ErrorCode, nil)
	if n := w.fetch("g9", "t", 0); n != 7 {
		t.Errorf("the offset is %d, want 7", n)
	}
}

// A sweep continues after a group that cannot be loaded, and drops idle groups from memory.
func TestSweepContinues(t *testing.T) {
	w := newWorld(t, Options{})
	w.topics.create("t", 1)
	for _, name := range []string{"a", "b", "c"} {
		wantCode(t, "commit", w.commit(commitRequest(name, "t", 0, -1)), nil) // a header without offsets
	}
	b := mainstem.NewBatch()
	b.Put(partition.GroupSpace, memberKey("b", "m"), []byte{1, 0}) // damaged
	if _, err := w.log.Commit(ctx, b); err != nil {
		t.Fatal(err)
	}
	w.reopen()
	<-w.restored // until then the coordinator loads b too, which is in memory meanwhile
	if err := w.Sweep(ctx); !errors.Is(err, mainstem.ErrCorrupt) || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("error %v, want that of b", err)
	}
	if a, c := w.hasHeader("a"), w.hasHeader("c"); a || c || len(w.all()) > 0 {
		t.Errorf("the headers of the others are there: %v, %v; %d groups in memory", a, c, len(w.all()))
	}
}
