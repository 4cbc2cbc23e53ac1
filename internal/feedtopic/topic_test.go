package feedtopic_test

import (
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/feedtopic"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/topic"
	"github.com/mainstemdev/mainstem/topic/partition"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plain shows the records of a space but for those whose keys begin with "-".
type plain struct {
	log mainstem.Log
}

func (p plain) Space() string     { return "s" }
func (p plain) KeyPrefix() []byte { return nil }

func (p plain) Last(ctx context.Context) (mainstem.Position, error) {
	info, err := p.log.Space(ctx, "s")
	return info.Last, err
}

func (p plain) Revived(context.Context) (mainstem.Position, error) { return 0, nil }

func (p plain) Records(ctx context.Context, after mainstem.Position) iter.Seq2[*feedtopic.Record, error] {
	return func(yield func(*feedtopic.Record, error) bool) {
		for rec, err := range p.log.Feed(ctx, mainstem.Filter{Spaces: []string{"s"}, After: after}) {
			if err == nil && rec.Key[0] == '-' {
				continue
			}
			r := &feedtopic.Record{Place: feedtopic.Place{Position: rec.Position, Time: rec.Time}, Key: string(rec.Key), Value: rec.Value}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

func (p plain) Places(ctx context.Context, after mainstem.Position, limit int) iter.Seq2[feedtopic.Place, error] {
	return func(yield func(feedtopic.Place, error) bool) {
		n := 0
		for r, err := range p.Records(ctx, after) {
			if !yield(r.Place, err) || err != nil {
				return
			}
			if n++; n == limit {
				return
			}
		}
	}
}

func put(t testing.TB, log mainstem.Log, key, value string) mainstem.Position {
	t.Helper()
	b := mainstem.NewBatch()
	b.Ensure("s", mainstem.Policy{History: 1})
	b.Put("s", []byte(key), []byte(value))
	r, err := log.Commit(context.Background(), b)
	if err != nil {
		t.Fatal(err)
	}
	return r.Last
}

// open returns a topic of a log, with followers that end with the test.
func open(t testing.TB, log mainstem.Log) *feedtopic.Topic {
	t.Helper()
	f := feedtopic.OpenFollowers(log, nil)
	t.Cleanup(f.Close)
	return feedtopic.New(f, "t", feedtopic.ComputedID([16]byte{1}), plain{log})
}

// keys reads a topic as a client does.
func keys(t testing.TB, tp *feedtopic.Topic, offset int64, maxBytes int) (out []string) {
	t.Helper()
	for {
		c, err := tp.Read(context.Background(), 0, offset, &partition.ReadOptions{MaxBytes: maxBytes})
		if err != nil {
			t.Fatal(err)
		}
		if c.Full != (c.Next < c.End) {
			t.Fatalf("next %d, end %d, full %v", c.Next, c.End, c.Full)
		}
		if len(c.Data) == 0 {
			if offset < c.End {
				t.Fatalf("nothing at %d, the end is %d", offset, c.End)
			}
			return out
		}
		for data := c.Data; len(data) > 0; {
			n := 12 + int(binary.BigEndian.Uint32(data[8:]))
			h, err := recordbatch.Parse(data[:n])
			if err != nil || !recordbatch.Intact(data[:n]) || n > feedtopic.BatchBytes && h.NumRecords > 1 {
				t.Fatalf("a batch of %d bytes, %v", n, err)
			}
			var d recordbatch.Decoder
			for r, err := range d.Records(data[:n], h.FirstOffset) {
				if err != nil || r.Offset < offset {
					t.Fatal(r.Offset, err)
				}
				out, offset = append(out, string(r.Key)), r.Offset+1
			}
			data = data[n:]
		}
		if c.Next != offset {
			t.Fatalf("a client goes on at %d, the chunk says %d", offset, c.Next)
		}
	}
}

// TestWhatIsShownIsRead whatever was superseded, is hidden or large, from any offset.
func TestWhatIsShownIsRead(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		log := testengines.Memory(t)
		tp := open(t, log)
		newest := map[string]mainstem.Position{}
		for range rapid.IntRange(1, 15).Draw(rt, "writes") {
			key := rapid.SampledFrom([]string{"a", "b", "c", "d", "-1", "-2"}).Draw(rt, "key")
			newest[key] = put(t, log, key, strings.Repeat("x", rapid.SampledFrom([]int{0, 10, 20, 30, 40, 50, 60, feedtopic.BatchBytes}).Draw(rt, "size")))
		}
		from := rapid.Int64Range(0, 10).Draw(rt, "offset")
		var want []string
		last := mainstem.Position(0)
		for key, p := range newest {
			if key[0] != '-' {
				last = max(last, p)
				if int64(p) >= from {
					want = append(want, key)
				}
			}
		}
		slices.SortFunc(want, func(a, b string) int { return int(newest[a]) - int(newest[b]) })
		end, err := tp.End(t.Context(), 0)
		if err != nil || last > 0 && end != int64(last)+1 || last == 0 && end != 0 {
			rt.Fatalf("the end is %d, the newest record %d, %v", end, last, err)
		}
		bound, err := tp.Bound(t.Context(), 0)
		if err != nil || bound < end {
			rt.Fatal(bound, err)
		}
		if from > bound {
			return
		}
		if got := keys(t, tp, from, rapid.SampledFrom([]int{1, 100, 1 << 20}).Draw(rt, "limit")); !slices.Equal(got, want) {
			rt.Fatalf("from %d: %q, want %q", from, got, want)
		}
	})
}

func TestFollowersEnd(t *testing.T) {
	log := testengines.Memory(t)
	put(t, log, "a", "")
	f := feedtopic.OpenFollowers(log, nil)
	tp := feedtopic.New(f, "t", feedtopic.ComputedID([16]byte{1}), plain{log})
	wake := make(chan struct{}, 1)
	stop, err := tp.Notify(0, wake)
	if err != nil || f.Len() != 1 {
		t.Fatal(f.Len(), err)
	}
	put(t, log, "b", "")
	select {
	case <-wake:
	case <-time.After(time.Minute):
		t.Fatal("not woken")
	}
	f.Close()
	stop()
	if _, err := tp.Notify(0, wake); !errors.Is(err, mainstem.ErrClosed) {
		t.Error(err)
	}
	if _, err := tp.Notify(1, wake); !errors.Is(err, mainstem.ErrNotFound) {
		t.Error(err)
	}
	var out *topic.OutOfRangeError
	if _, err := tp.Read(t.Context(), 0, 1<<40, nil); !errors.As(err, &out) || out.Start != 0 {
		t.Error(err)
	}
}
