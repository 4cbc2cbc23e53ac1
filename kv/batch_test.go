package kv_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// into commits what write adds to a batch.
func into(ctx context.Context, log mainstem.Log, write func(batch *mainstem.Batch)) error {
	batch := mainstem.NewBatch()
	write(batch)
	_, err := log.Commit(ctx, batch)
	return err
}

func TestWritesIntoABatch(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		b := open[int64](t, log, "t", nil)
		put(t, b, "old", 1)
		check(t, into(ctx, log, func(batch *mainstem.Batch) {
			b.CreateTo(batch, "new", 1, kv.Metadata{"by": "test"}, kv.TTL(time.Hour))
			b.UpdateTo(batch, "old", 2, 1)
			b.PutManyTo(batch, []kv.Pair[int64]{{Key: "p1", Value: 10}, {Key: "p2", Value: 20}}, kv.IfAbsent())
			check(t, kv.IncrementTo(ctx, batch, b, "sum", 7))
		}))
		for key, want := range map[string]int64{"new": 1, "old": 2, "p1": 10, "p2": 20, "sum": 7} {
			if e := must[kv.Entry[int64]](t)(b.Get(ctx, key)); e.Value != want {
				t.Errorf("%s is %d: want %d", key, e.Value, want)
			}
		}
		if e := must[kv.Entry[int64]](t)(b.Get(ctx, "new")); e.Metadata["by"] != "test" || e.Expires.IsZero() || e.Op != kv.OpCreate {
			t.Errorf("created %+v", e)
		}

		for name, write := range map[string]func(batch *mainstem.Batch){
			"CreateTo of a key with a value": func(batch *mainstem.Batch) { b.CreateTo(batch, "new", 2) },
			"UpdateTo of another revision":   func(batch *mainstem.Batch) { b.UpdateTo(batch, "old", 3, 1) },
			"PutManyTo with a condition": func(batch *mainstem.Batch) {
				b.PutManyTo(batch, []kv.Pair[int64]{{Key: "p3"}, {Key: "p1"}}, kv.IfAbsent())
			},
			"a write after IncrementTo": func(batch *mainstem.Batch) {
				check(t, kv.IncrementTo(ctx, batch, b, "sum", 1))
				put(t, b, "sum", 100)
			},
		} {
			if err := into(ctx, log, write); !errors.Is(err, mainstem.ErrConflict) {
				t.Errorf("%s: %v: want Conflict", name, err)
			}
		}
		if e := must[kv.Entry[int64]](t)(b.Get(ctx, "sum")); e.Value != 100 {
			t.Errorf("the refused batch made %d of the sum", e.Value)
		}
	})
}

// ModifyTo returns its errors, and Commit returns them too: nothing of the batch is written.
func TestModifyToFailsItsBatch(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		b := open[int64](t, log, "t", nil)
		wrong := errors.New("wrong")
		for name, c := range map[string]struct {
			modify func(batch *mainstem.Batch) error
			want   error
		}{
			"an error of change": {func(batch *mainstem.Batch) error {
				return b.ModifyTo(ctx, batch, "k", func(int64, bool) (int64, error) { return 0, wrong })
			}, wrong},
			"a key that the batch writes": {func(batch *mainstem.Batch) error {
				b.PutTo(batch, "k", 1)
				return kv.IncrementTo(ctx, batch, b, "k", 1)
			}, mainstem.ErrInvalid},
			"an empty key": {func(batch *mainstem.Batch) error { return kv.IncrementTo(ctx, batch, b, "", 1) }, mainstem.ErrInvalid},
		} {
			var said error
			err := into(ctx, log, func(batch *mainstem.Batch) {
				b.PutTo(batch, "other", 1)
				said = c.modify(batch)
			})
			if !errors.Is(said, c.want) || !errors.Is(err, c.want) {
				t.Errorf("%s: ModifyTo returns %v, Commit %v: want %v", name, said, err, c.want)
			}
		}
		_, err := b.Get(ctx, "other")
		wantErr(t, err, mainstem.ErrNotFound)
	})
}

// The compiler refuses an option where it makes no sense.
func TestOptionsFitTheirWrites(t *testing.T) {
	for name, c := range map[string]struct {
		option             any
		put, value, delete bool
	}{
		"TTL":       {kv.TTL(1), true, true, false},
		"Metadata":  {kv.Metadata{}, true, true, true},
		"Condition": {kv.IfAbsent(), true, false, true},
	} {
		_, put := c.option.(kv.PutOption)
		_, value := c.option.(kv.ValueOption)
		_, deletes := c.option.(kv.DeleteOption)
		if put != c.put || value != c.value || deletes != c.delete {
			t.Errorf("%s is a PutOption: %v, a ValueOption: %v, a DeleteOption: %v", name, put, value, deletes)
		}
	}
}
