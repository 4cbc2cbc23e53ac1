package pebblelog_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

// putWithID commits one record in a batch with an ID.
func putWithID(tb testing.TB, l *pebblelog.Log, b *mainstem.Batch, id string) mainstem.Receipt {
	tb.Helper()
	b.Reset()
	b.ID = id
	b.Ensure("s", mainstem.Policy{History: 1})
	b.Put("s", []byte("key"), event61)
	r, err := l.Commit(context.Background(), b)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// A batch that was committed before the log was opened is a duplicate, whether the log has
// found out meanwhile which receipts it has or not.
func TestReceiptsFromBefore(t *testing.T) {
	dir, o := t.TempDir(), &pebblelog.Options{Durability: mainstem.OS}
	l, err := pebblelog.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	if !l.ReceiptsKnown() {
		t.Error("a new log does not know that it has no receipts")
	}
	b := mainstem.NewBatch()
	const many = 3 * pebblelog.ReceiptLooks
	old := make([]mainstem.Receipt, many)
	for i := range old {
		if old[i] = putWithID(t, l, b, fmt.Sprint("old-", i)); old[i].Duplicate {
			t.Fatalf("batch %d is a duplicate", i)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = pebblelog.Open(dir, o); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	check := func(when string, n int) {
		t.Helper()
		for i := range n {
			if r := putWithID(t, l, b, fmt.Sprint("old-", i)); !r.Duplicate || r.Last != old[i].Last {
				t.Fatalf("%s, batch %d is at %d, a duplicate: %v; want %d", when, i, r.Last, r.Duplicate, old[i].Last)
			}
		}
		if r := putWithID(t, l, b, when); r.Duplicate {
			t.Fatalf("%s, a new batch is a duplicate", when)
		}
		if r := putWithID(t, l, b, when); !r.Duplicate {
			t.Fatalf("%s, a new batch is none the second time", when)
		}
	}
	check("at first", 10)
	if l.ReceiptsKnown() {
		t.Error("the log has read its receipts before many were looked for")
	}
	check("while they are read", many)
	testkit.Eventually(t, "the log knows its receipts", l.ReceiptsKnown)
	check("when they are known", many)
}

// What a log knows of its receipts begins anew when it has become too much.
func TestReceiptsBeginAgain(t *testing.T) {
	l, err := pebblelog.Open(t.TempDir(), &pebblelog.Options{Durability: mainstem.OS})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.LimitReceipts(2 << 10) // 1,536 keys
	b, known, forgot := mainstem.NewBatch(), l.ReceiptsKnown(), 0
	put := func(i int) mainstem.Receipt { // any batch may be the one before which the log begins again
		r := putWithID(t, l, b, fmt.Sprint("batch-", i))
		before := known
		if known = l.ReceiptsKnown(); before && !known {
			forgot++
		}
		return r
	}
	for i := range 6000 {
		if r := put(i); r.Duplicate {
			t.Fatalf("batch %d is a duplicate", i)
		}
		if i%7 > 0 {
			continue
		}
		if r := put(i / 2); !r.Duplicate {
			t.Fatalf("batch %d is no duplicate after %d", i/2, i)
		}
	}
	if forgot == 0 {
		t.Error("it never began again")
	}
}

// BenchmarkCommitWithID compares a put in a batch that has a new ID with one that has none, in
// a new log and in one that was opened with 200,000 receipts.
func BenchmarkCommitWithID(b *testing.B) {
	for _, before := range []int{0, 200_000} {
		b.Run(fmt.Sprintf("%d receipts", before), func(b *testing.B) {
			dir, o := b.TempDir(), &pebblelog.Options{Durability: mainstem.OS}
			l, err := pebblelog.Open(dir, o)
			if err != nil {
				b.Fatal(err)
			}
			batch, n := mainstem.NewBatch(), 0
			named := func(int) {
				n++
				putWithID(b, l, batch, fmt.Sprintf("batch-%d", n))
			}
			if before > 0 {
				for range before {
					named(0)
				}
				if err := l.Close(); err != nil {
					b.Fatal(err)
				}
				if l, err = pebblelog.Open(dir, o); err != nil {
					b.Fatal(err)
				}
			}
			b.Cleanup(func() { _ = l.Close() })
			b.ResetTimer()
			turns(b, 1, "none", named, func(int) { putWithID(b, l, batch, "") })
		})
	}
}
