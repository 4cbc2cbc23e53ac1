package group

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

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
