package pglog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pglog"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

func TestManyProcessesOpenANewLog(t *testing.T) {
	url := testpostgres.FastDB(t)
	logs := make(chan *pglog.Log, 6)
	for range cap(logs) {
		go func() {
			log, err := pglog.Open(t.Context(), url, &pglog.Options{Schema: "shared"})
			if err != nil {
				t.Error(err)
			}
			logs <- log
		}()
	}
	for n := range cap(logs) {
		log := <-logs
		if log == nil {
			continue
		}
		if r := commit(t, log, batch("k", "v")); int(r.Versions[0]) != n+1 {
			t.Errorf("log %d is another one: version %d", n, r.Versions[0])
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	url := testpostgres.FastDB(t)
	c := connect(t, url)
	execute(t, c, `CREATE SCHEMA newer; CREATE TABLE newer.migration (version int, applied timestamptz); INSERT INTO newer.migration VALUES (99, now());
		CREATE SCHEMA foreign_; CREATE TABLE foreign_.record (i int)`)
	execute(t, c, "DROP DATABASE IF EXISTS ascii")
	execute(t, c, "CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
	for _, test := range []struct {
		url  string
		o    pglog.Options
		want error
	}{
		{url, pglog.Options{Schema: "newer"}, mainstem.ErrInvalid},
		{url, pglog.Options{MustExist: true}, mainstem.ErrNotFound},
		{url, pglog.Options{Schema: "Not a name"}, mainstem.ErrInvalid},
		{url, pglog.Options{Schema: "pg_mine"}, mainstem.ErrInvalid},
		{url, pglog.Options{Limits: mainstem.Limits{MaxBatchBytes: 1 << 40}}, mainstem.ErrInvalid},
		{strings.Replace(url, "/test", "/nowhere", 1), pglog.Options{}, mainstem.ErrNotFound},
		{value[string](t, c, "SELECT replace($1, current_database(), 'ascii')", url), pglog.Options{}, mainstem.ErrUnsupported},
		{"postgres://host:port/db", pglog.Options{}, mainstem.ErrInvalid},
	} {
		log, err := pglog.Open(t.Context(), test.url, &test.o)
		if !errors.Is(err, test.want) {
			t.Errorf("%+v at %s: %v, want %v", test.o, test.url, err, test.want)
		}
		if log != nil {
			_ = log.Close()
		}
	}
	if _, err := pglog.Open(t.Context(), "postgres://u:secret@host:port/db", nil); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("the error shows the password: %v", err)
	}
}

func TestViews(t *testing.T) {
	log, url := openNew(t, nil)
	c := connect(t, url)
	b := mainstem.NewBatch()
	b.Ensure("event/orders", mainstem.Policy{})
	b.Ensure("kv/app/users", mainstem.Policy{History: 1})
	b.Add(mainstem.Write{Space: "event/orders", Key: []byte("order-1"), Value: []byte(`{"n": 1}`), Headers: mainstem.Headers{{Name: "$type", Value: []byte("Placed")}, {Name: "nil"}, {Name: "$type", Value: []byte("second")}}})
	b.Put("kv/app/users", []byte("ann"), []byte{0xff, 0})
	b.Put("kv/app/users", []byte("bob"), []byte("x"))
	b.Delete("kv/app/users", []byte("bob"))
	commit(t, log, b)
	for sql, want := range map[string]string{
		"SELECT store || ' ' || stream || ' ' || version || ' ' || type || ' ' || data FROM mainstem.events":                       `orders order-1 1 Placed {"n": 1}`,
		"SELECT headers::text FROM mainstem.events":                                                                                `{"nil": null, "$type": "Placed"}`,
		"SELECT string_agg(key || '=' || value, ',') FROM mainstem.buckets WHERE space = 'kv/app/users'":                           `ann=\xff00`,
		"SELECT string_agg(key || ' ' || kind, ',' ORDER BY position) FROM mainstem.records WHERE space = 'kv/app/users'":          "ann value,bob deleted",
		"SELECT string_agg(name || ' ' || records, ',' ORDER BY name) FROM mainstem.spaces WHERE updated > now() - '1h'::interval": "event/orders 1,kv/app/users 2",
	} {
		if got := value[string](t, c, sql); got != want {
			t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
}

func TestCheckFindsDamage(t *testing.T) {
	url := testpostgres.FastDB(t)
	c := connect(t, url)
	log := openLog(t, url, &pglog.Options{SweepEvery: time.Hour})
	defer log.Close()
	b := batch("k", "value")
	b.Add(mainstem.Write{Space: "s", Key: []byte("k"), Value: []byte("2"), Headers: mainstem.Headers{{Name: "h", Value: []byte("v")}}})
	b.Put("s", []byte("other"), nil)
	commit(t, log, b)
	for damage, want := range map[string]string{
		"DELETE FROM mainstem.record WHERE version = 1 AND key = (SELECT id FROM mainstem.key WHERE name = 'k')": "totals say",
		"UPDATE mainstem.key SET held = 7":                                     "says that 7 records",
		"UPDATE mainstem.key SET version = 1 WHERE name = 'k'":                 "is at version 1",
		"UPDATE mainstem.key SET position = NULL":                              "says wrongly",
		"UPDATE mainstem.record SET value = 'longer than before'":              "is said to have",
		"UPDATE mainstem.record SET count = 9 WHERE version = 2":               "carries 9 items",
		"UPDATE mainstem.record SET position = 99 WHERE version = 2":           "has position 99",
		"UPDATE mainstem.record SET headers = '\\x0001ffff' WHERE version = 2": "malformed headers",
		"DELETE FROM mainstem.key WHERE name = 'other'":                        "records without a key",
		"DELETE FROM mainstem.space":                                           "without a space",
		"UPDATE mainstem.total SET last = 0":                                   "totals end at position 0",
	} {
		execute(t, c, "CREATE SCHEMA saved")
		for _, table := range []string{"key", "record", "space", "total"} {
			execute(t, c, "CREATE TABLE saved."+table+" AS TABLE mainstem."+table)
		}
		execute(t, c, damage)
		var found []string
		if _, err := log.Check(t.Context(), func(p mainstem.Problem) { found = append(found, p.Where+": "+p.What) }); err != nil {
			t.Errorf("%s: %v", damage, err)
		}
		if !strings.Contains(strings.Join(found, "\n"), want) {
			t.Errorf("%s: check found %q, want %q among it", damage, found, want)
		}
		for _, table := range []string{"key", "record", "space", "total"} {
			execute(t, c, "DELETE FROM mainstem."+table)
			execute(t, c, "INSERT INTO mainstem."+table+" OVERRIDING SYSTEM VALUE SELECT * FROM saved."+table)
		}
		execute(t, c, "DROP SCHEMA saved CASCADE")
	}
	if _, err := log.Check(t.Context(), func(p mainstem.Problem) { t.Errorf("the test left %s: %s", p.Where, p.What) }); err != nil {
		t.Error(err)
	}
}

// Keys that no index takes: incompressible, as long as may be, equal for 2,560 bytes.
func TestLongKeys(t *testing.T) {
	log, _ := openNew(t, nil)
	rnd := rand.New(rand.NewPCG(1, 2))
	stem := make([]byte, mainstem.MaxKey-1)
	for i := range stem {
		stem[i] = byte(rnd.Uint32())
	}
	var keys [][]byte
	for _, n := range []int{1, 2559, 2560, 2561, 3000, len(stem)} {
		for _, end := range []byte{0, 7, 0xff} {
			keys = append(keys, append(bytes.Clone(stem[:n]), end))
		}
	}
	for n := range 2 {
		b := mainstem.NewBatch()
		b.Ensure("s", mainstem.Policy{History: 1})
		for _, i := range rnd.Perm(len(keys)) {
			b.Put("s", keys[i], keys[i][:n])
		}
		commit(t, log, b)
	}
	slices.SortFunc(keys, bytes.Compare)
	for _, r := range []mainstem.Range{{}, {Prefix: stem[:2560]}, {Prefix: stem[:2900]}, {Start: keys[5], End: keys[14]}, {Start: append(bytes.Clone(stem[:3000]), 7)}, {End: keys[10], Reverse: true}} {
		var want, got [][]byte
		for _, k := range keys {
			if bytes.HasPrefix(k, r.Prefix) && bytes.Compare(k, r.Start) >= 0 && (r.End == nil || bytes.Compare(k, r.End) < 0) {
				want = append(want, k)
			}
		}
		if r.Reverse {
			slices.Reverse(want)
		}
		for rec, err := range log.Scan(t.Context(), "s", r) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, bytes.Clone(rec.Key))
		}
		if !slices.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("a scan yields %d keys, want %d in order", len(got), len(want))
		}
	}
	for _, k := range keys {
		if r, err := log.Get(t.Context(), "s", k); err != nil || !bytes.Equal(r.Key, k) || r.Version != 2 {
			t.Errorf("a key of %d bytes: version %d, %v", len(k), r.Version, err)
		}
	}
}

// Records far larger than those before: a page that was guessed too large is given up.
func TestPagesOfUnequalRecords(t *testing.T) {
	log, _ := openNew(t, nil)
	const small, large = 300, 24
	b := mainstem.NewBatch()
	b.Ensure("s", mainstem.Policy{})
	for range small {
		b.Put("s", []byte("k"), []byte("v"))
	}
	commit(t, log, b)
	if n := len(feed(t, log, mainstem.Filter{Spaces: []string{"s"}})); n != small {
		t.Fatalf("%d records", n)
	}
	for n := range large {
		b := mainstem.NewBatch()
		b.Put("s", []byte("k"), bytes.Repeat([]byte{byte(n)}, 1<<20))
		b.Put("s", fmt.Append(nil, n), bytes.Repeat([]byte{byte(n)}, 1<<10))
		commit(t, log, b)
	}
	for what, seq := range map[string]func() (n, size int){
		"read": func() (n, size int) {
			for r, err := range log.Read(t.Context(), "s", []byte("k"), mainstem.Versions{}) {
				if n, size = n+1, size+len(r.Value); err != nil || int(r.Version) != n {
					t.Fatalf("record %d has version %d, %v", n, r.Version, err)
				}
			}
			return n, size - small
		},
		"feed": func() (n, size int) {
			for r, err := range log.Feed(t.Context(), mainstem.Filter{KeyPrefix: []byte("k")}) {
				if n, size = n+1, size+len(r.Value); err != nil {
					t.Fatal(err)
				}
			}
			return n, size - small
		},
	} {
		if n, size := seq(); n != small+large || size != large<<20 {
			t.Errorf("%s: %d records and %d bytes, want %d and %d", what, n, size, small+large, large<<20)
		}
	}
}

// The largest value there may be is more than a page alone. After a small record it is still
// read by every kind of read, of the log and of a snapshot.
func TestLargestValueAfterASmallRecord(t *testing.T) {
	log, _ := openNew(t, nil)
	large := bytes.Repeat([]byte("v"), mainstem.DefaultMaxValue)
	headers := mainstem.Headers{{Name: "h", Value: []byte("v")}}
	for _, value := range [][]byte{[]byte("v"), large} {
		b := mainstem.NewBatch()
		b.Ensure("s", mainstem.Policy{})
		b.Add(mainstem.Write{Space: "s", Key: []byte("k"), Value: value, Headers: headers})
		b.Add(mainstem.Write{Space: "s", Key: fmt.Append(nil, "of ", len(value)), Value: value, Headers: headers})
		commit(t, log, b)
	}
	snapshot, err := log.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snapshot.Close()
	for on, reader := range map[string]mainstem.Reader{"log": log, "snapshot": snapshot} {
		for what, seq := range map[string]iter.Seq2[mainstem.Record, error]{
			"read":     reader.Read(t.Context(), "s", []byte("k"), mainstem.Versions{}),
			"feed":     reader.Feed(t.Context(), mainstem.Filter{KeyPrefix: []byte("k")}),
			"scan":     reader.Scan(t.Context(), "s", mainstem.Range{Start: []byte("o")}),
			"get many": reader.GetMany(t.Context(), "s", [][]byte{[]byte("of 1"), fmt.Append(nil, "of ", len(large))}),
		} {
			n, size := 0, 0
			for r, err := range seq {
				if err != nil {
					t.Fatalf("%s of the %s, after %d records: %v", what, on, n, err)
				}
				n, size = n+1, size+len(r.Value)
			}
			if n != 2 || size != len(large)+1 {
				t.Errorf("%s of the %s: %d records and %d bytes, want 2 and %d", what, on, n, size, len(large)+1)
			}
		}
	}
}

// Each snapshot holds a connection; when there are no more, that is said, not waited for.
func TestHeldConnectionsRunOut(t *testing.T) {
	log, _ := openNew(t, &pglog.Options{HeldConns: 2})
	commit(t, log, batch("k", "v"))
	for n := range 3 {
		s, err := log.Snapshot(t.Context())
		if n == 2 {
			if !errors.Is(err, mainstem.ErrUnavailable) {
				t.Errorf("snapshot %d of 2: %v, want Unavailable", n+1, err)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
	}
	commit(t, log, batch("k", "commits go on"))
	if got := feed(t, log, mainstem.Filter{}); len(got) != 2 {
		t.Errorf("the log holds %v", got)
	}
}

func TestSweepRemovesWhatIsGone(t *testing.T) {
	log, url := openNew(t, &pglog.Options{BatchIDAge: time.Nanosecond})
	c := connect(t, url)
	for n := range 5 {
		b := batch(fmt.Sprint(n), "v")
		b.ID = fmt.Sprint(n)
		commit(t, log, b)
	}
	if err := log.DropSpace(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if err := log.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"record", "key", "gone", "batch"} {
		testkit.Eventually(t, table+" is empty", func() bool { return value[int](t, c, "SELECT count(*) FROM mainstem."+table) == 0 })
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := log.Sweep(ctx); !errors.Is(err, mainstem.ErrCanceled) {
		t.Errorf("a sweep with a context that has ended: %v", err)
	}
}
