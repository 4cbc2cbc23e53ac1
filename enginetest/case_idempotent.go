package enginetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/mainstemdev/mainstem"
)

var idempotentCases = []testCase{
	{law: Idempotent, name: "second commit writes nothing", run: secondCommitWritesNothing,
		promise: "A batch with an ID that was committed before returns the first receipt, marked Duplicate, and writes nothing."},
	{law: Idempotent, name: "duplicate despite conditions", run: duplicateDespiteConditions,
		promise: "A duplicate succeeds even if its conditions would fail now, or its space is gone."},
	{law: Idempotent, name: "failed batch leaves its ID free", run: failedLeavesIDFree,
		promise: "The ID of a batch that failed is free for the next try."},
	{law: Idempotent, name: "IDs are exact", run: idsAreExact,
		promise: "IDs are compared byte by byte up to their full length; no ID means no comparison."},
	{law: Idempotent, name: "one of many writes", run: oneOfManyWrites,
		promise: "Of many commits at once with the same ID exactly one writes, and all return its receipt."},
	{law: Idempotent, name: "duplicate after reopen", needs: needReopen, run: duplicateAfterReopen,
		promise: "IDs are remembered across restarts."},
	{law: Idempotent, name: "batch without writes", run: emptyBatchWithID,
		promise: "A batch of conditions only is idempotent by its ID too."},
}

// again commits b, which must be a duplicate of the batch of first.
func (e *env) again(b *mainstem.Batch, first mainstem.Receipt) {
	e.Helper()
	before := e.dump(e.log)
	r, err := e.attempt(b)
	if err != nil {
		e.Fatalf("commit of a duplicate of %q: %v", b.ID, err)
	}
	if !r.Duplicate || !sameReceipt(r, first) {
		e.Fatalf("commit of a duplicate of %q: the receipt is %+v, want %+v with Duplicate", b.ID, r, first)
	}
	e.unchanged(before, "after a duplicate")
}

func sameReceipt(a, b mainstem.Receipt) bool {
	return a.First == b.First && a.Last == b.Last && a.Time.Equal(b.Time) && slices.Equal(a.Versions, b.Versions)
}

func secondCommitWritesNothing(e *env) {
	e.seeded()
	b := mainstem.NewBatch()
	b.ID = "once"
	muchWork(b)
	b.Delete("s", []byte("nothing")) // writes no record: version 0
	first, err := e.attempt(b)
	if err != nil || first.Duplicate || len(first.Versions) != b.Len() {
		e.Fatalf("first commit: %+v, %v", first, err)
	}
	kept := first
	kept.Versions = slices.Clone(first.Versions)
	clear(first.Versions) // the slice belongs to us: the log must keep its own
	e.again(b, kept)
	e.put("s", "live", "later")
	for range 2 {
		e.again(b, kept)
	}
	other := mainstem.NewBatch() // the ID decides, whatever the batch holds
	other.ID = "once"
	other.Put("b", []byte("k"), []byte("other"))
	e.again(other, kept)
	e.absent("b", "k")
}

func duplicateDespiteConditions(e *env) {
	e.space("s", mainstem.Policy{})
	b := mainstem.NewBatch()
	b.ID = "create"
	b.IfAbsent("s", []byte("k"))
	b.Put("s", []byte("k"), []byte("v"))
	first, err := e.attempt(b)
	if err != nil {
		e.Fatalf("commit: %v", err)
	}
	e.again(b, first)
	if err := e.log.DropSpace(e.ctx, "s"); err != nil {
		e.Fatalf("drop: %v", err)
	}
	e.again(b, first)
}

func failedLeavesIDFree(e *env) {
	e.space("s", mainstem.Policy{})
	e.put("s", "k", "1")
	e.refused(mainstem.KindConflict, func(b *mainstem.Batch) {
		b.ID = "try"
		b.IfAbsent("s", []byte("k"))
		b.Put("s", []byte("k"), []byte("2"))
	})
	e.refused(mainstem.KindNotFound, func(b *mainstem.Batch) { b.ID = "try"; b.Put("nowhere", []byte("k"), nil) })
	r := e.commit(func(b *mainstem.Batch) { b.ID = "try"; b.Put("s", []byte("k"), []byte("3")) })
	if r.Duplicate || r.Versions[0] != 2 {
		e.Fatalf("after failed tries the receipt is %+v, want one of version 2", r)
	}
	e.holds("s", "k", "3")
}

func idsAreExact(e *env) {
	e.space("s", mainstem.Policy{})
	long := strings.Repeat("i", mainstem.MaxBatchID-1)
	ids := []string{"a", "A", "a ", "a\x00", "\x00", "\xff", "ab", long + "1", long + "2", long}
	for i, id := range slices.Concat(ids, []string{"", "", ""}) {
		r := e.commit(func(b *mainstem.Batch) { b.ID = id; b.Put("s", []byte("k"), nil) })
		if r.Duplicate || r.Versions[0] != mainstem.Version(i+1) {
			e.Fatalf("the first batch with ID %.20q: %+v, want version %d", id, r, i+1)
		}
	}
	for i, id := range ids {
		r := e.commit(func(b *mainstem.Batch) { b.ID = id; b.Put("s", []byte("k"), nil) })
		if !r.Duplicate || r.Versions[0] != mainstem.Version(i+1) {
			e.Fatalf("the second batch with ID %.20q: %+v, want a duplicate of version %d", id, r, i+1)
		}
	}
}

func oneOfManyWrites(e *env) {
	e.space("s", mainstem.Policy{})
	for round := range 20 {
		var mu sync.Mutex
		var all []mainstem.Receipt
		e.parallel(8, func(i int) error {
			b := mainstem.NewBatch()
			b.ID = fmt.Sprint("round ", round)
			b.Put("s", []byte("k"), []byte{byte(i)})
			b.Put("s", []byte("l"), []byte{byte(i)})
			r, err := e.attempt(b)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, r)
			return err
		})
		firsts := 0
		for _, r := range all {
			if !r.Duplicate {
				firsts++
			}
			if !sameReceipt(r, all[0]) || r.Versions[0] != mainstem.Version(round+1) {
				e.Fatalf("round %d: one client has the receipt %+v, another %+v", round, all[0], r)
			}
		}
		if firsts != 1 {
			e.Fatalf("round %d: %d clients were told that they were the first", round, firsts)
		}
	}
	if n := len(e.feed(mainstem.Filter{})); n != 40 {
		e.Fatalf("20 batches of 2 records made %d records", n)
	}
}

func duplicateAfterReopen(e *env) {
	e.seeded()
	b := mainstem.NewBatch()
	b.ID = "before"
	muchWork(b)
	first, err := e.attempt(b)
	if err != nil {
		e.Fatalf("commit: %v", err)
	}
	e.restart()
	e.again(b, first)
	e.restart()
	e.again(b, first)
}

func emptyBatchWithID(e *env) {
	e.space("s", mainstem.Policy{})
	b := mainstem.NewBatch()
	b.ID = "check"
	b.IfAbsent("s", []byte("k"))
	first, err := e.attempt(b)
	if err != nil {
		e.Fatalf("commit: %v", err)
	}
	e.put("s", "k", "v")
	e.again(b, first)
}
