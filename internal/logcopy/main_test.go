package logcopy_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/internal/logcopy"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a log in memory that is checked and closed in the end.
func open(t testing.TB, c *testkit.Clock) *pebblelog.Log {
	t.Helper()
	o := &pebblelog.Options{MemTableBytes: 256 << 10, KeyStateCache: 8}
	if c != nil {
		o.Now = c.Now
	}
	log, err := pebblelog.OpenMemory(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		checkAndClose(t, log)
	})
	return log
}

func checkAndClose(t testing.TB, log *pebblelog.Log) {
	t.Helper()
	if _, err := log.Check(context.Background(), func(p mainstem.Problem) { t.Errorf("check: %s: %s", p.Where, p.What) }); err != nil {
		t.Errorf("check: %v", err)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}

// failer is what a testing.TB and a rapid.T have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// dump writes down everything that a log holds except positions: policies, the feed,
// the newest record of each key and all records of each key that keys names.
func dump(t failer, log mainstem.Log, prefix string, keys map[string][]string) []string {
	t.Helper()
	ctx := context.Background()
	var out []string
	fail := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("dump: %v", err)
		}
	}
	var names []string
	for in, err := range log.Spaces(ctx, prefix) {
		fail(err)
		if in.Name == logcopy.Space {
			continue
		}
		names = append(names, in.Name)
		out = append(out, fmt.Sprintf("space %s created %d %+v: %d records, %d bytes", in.Name, in.Created.UnixNano(), in.Policy, in.Records, in.Bytes))
	}
	for r, err := range log.Feed(ctx, mainstem.Filter{Spaces: names}) {
		fail(err)
		out = append(out, "feed "+text(&r))
	}
	for _, name := range names {
		all := slices.Clone(keys[name])
		for r, err := range log.Scan(ctx, name, mainstem.Range{Tombstones: true}) {
			fail(err)
			out = append(out, "scan "+text(&r))
			all = append(all, string(r.Key))
		}
		slices.Sort(all)
		for _, key := range slices.Compact(all) {
			for r, err := range log.Read(ctx, name, []byte(key), mainstem.Versions{}) {
				fail(err)
				out = append(out, "read "+text(&r))
			}
		}
	}
	return out
}

// text writes down a record, but for its position. Tombstones of expiry are those of
// deletes after a copy.
func text(r *mainstem.Record) string {
	kind := r.Tombstone
	if kind == mainstem.Expired {
		kind = mainstem.Deleted
	}
	expires := int64(0)
	if !r.Expires.IsZero() {
		expires = r.Expires.UnixNano()
	}
	return fmt.Sprintf("%s %q @%d*%d %s %d expires %d %q nil:%v headers %#v", r.Space, r.Key, r.Version, r.Count, kind, r.Time.UnixNano(), expires, r.Value, r.Value == nil, r.Headers)
}

// same fails unless two dumps are equal, and shows where they part.
func same(t failer, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Fatalf("line %d of %d is missing: %s", i, len(want), want[i])
		case i >= len(want):
			t.Fatalf("line %d is too much: %s", i, got[i])
		case got[i] != want[i]:
			t.Fatalf("line %d of %d:\n got %s\nwant %s\n%s", i, len(want), short(got[i]), short(want[i]), strings.Join(want[max(0, i-3):i], "\n"))
		}
	}
}

func short(s string) string { return s[:min(len(s), 600)] }

// run copies and demands that nothing differs.
func run(t failer, from, to mainstem.Log, o *logcopy.Options) logcopy.Report {
	t.Helper()
	c, err := logcopy.New(from, to, o)
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	r, err := c.Run(context.Background())
	if err == nil {
		err = r.Err()
	}
	if err != nil {
		t.Fatalf("run: %v; %+v", err, r)
	}
	return r
}

func commit(t failer, log mainstem.Log, fill func(b *mainstem.Batch)) mainstem.Receipt {
	t.Helper()
	b := mainstem.NewBatch()
	fill(b)
	r, err := log.Commit(context.Background(), b)
	if err != nil {
		t.Fatalf("commit: %v", err)
	}
	return r
}
