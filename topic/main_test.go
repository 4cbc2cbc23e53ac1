package topic

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/engine/pebblelog"
	"github.com/mainstemdev/mainstem/enginetest/model"
	"github.com/mainstemdev/mainstem/topic/recordbatch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// eachProgram runs random programs on empty logs of the model and of the embedded
// engine, which is checked afterwards.
func eachProgram(t *testing.T, program func(t *rapid.T, log *failing)) {
	t.Run("model", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			log := model.New(nil)
			defer log.Close()
			program(t, &failing{Log: log})
		})
	})
	t.Run("pebblelog", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			log, err := pebblelog.OpenMemory(&pebblelog.Options{Durability: mainstem.OS})
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			program(t, &failing{Log: log})
			if _, err := log.Check(context.Background(), func(p mainstem.Problem) { t.Errorf("check: %s: %s", p.Where, p.What) }); err != nil {
				t.Fatal(err)
			}
		})
	})
}

// failing is a log whose n-th commit from now fails; n counts down to 1, and 0 means that none
// fails. If written is set, the batch is written all the same.
type failing struct {
	mainstem.Log
	n       int
	written bool
}

var errInjected = &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "commit", Outcome: mainstem.Unknown}

func (f *failing) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	if f.n > 0 {
		if f.n--; f.n == 0 {
			if f.written {
				if _, err := f.Log.Commit(ctx, b); err != nil {
					return mainstem.Receipt{}, err
				}
			}
			return mainstem.Receipt{}, errInjected
		}
	}
	return f.Log.Commit(ctx, b)
}

// mayFail calls run, of whose commits one may fail, as if the process had ended there.
func (f *failing) mayFail(t *rapid.T, run func() error) (failed bool) {
	f.n, f.written = rapid.IntRange(0, 6).Draw(t, "failing commit"), rapid.Bool().Draw(t, "written")
	defer func() { f.n = 0 }()
	err := run()
	if err != nil && !errors.Is(err, errInjected) {
		t.Fatal(err)
	}
	return err != nil
}

// open returns the topics of log without background upkeep.
func open(t testing.TB, log mainstem.Log, o *Options) *Catalog {
	t.Helper()
	if o == nil {
		o = &Options{}
	}
	if o.Every == 0 {
		o.Every = -1
	}
	c, err := Open(log, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func create(t testing.TB, c *Catalog, name string, s Spec) *Topic {
	t.Helper()
	tp, err := c.Create(t.Context(), name, s)
	if err != nil {
		t.Fatal(err)
	}
	return tp
}

// rec is a record of a batch in a test.
type rec struct {
	ms         int64
	key, value string
	null       bool // the value is null
}

// batch returns a record batch. A key of "" is null.
func batch(codec Codec, records ...rec) []byte {
	var b recordbatch.Builder
	for _, r := range records {
		x := recordbatch.Record{Timestamp: r.ms}
		if r.key != "" {
			x.Key = []byte(r.key)
		}
		if !r.null {
			x.Value = []byte(r.value)
		}
		b.Append(&x)
	}
	out, err := b.Finish(codec)
	if err != nil {
		panic(err)
	}
	return out
}

func mustAppend(t testing.TB, tp *Topic, partition int32, batch []byte) Appended {
	t.Helper()
	a, err := tp.Append(t.Context(), partition, batch)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// all returns every record of a topic, cloned, by partition.
func all(t testing.TB, tp *Topic, o *ConsumeOptions) map[int32][]Record {
	t.Helper()
	out := map[int32][]Record{}
	for r, err := range tp.Consume(t.Context(), o) {
		if err != nil {
			t.Fatal(err)
		}
		out[r.Partition] = append(out[r.Partition], r.Clone())
	}
	return out
}
