package pebblelog

import (
	"context"
	"testing"

	"github.com/mainstemdev/mainstem"
)

func TestSmoke(t *testing.T) {
	l, err := OpenMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	b := mainstem.NewBatch()
	b.Ensure("a", mainstem.Policy{})
	b.Ensure("k", mainstem.Policy{History: 1})
	b.Put("a", []byte("x"), []byte("1"))
	b.Put("k", []byte("x"), []byte("1"))
	b.Put("k", []byte("x"), []byte("2"))
	b.Put("a", []byte("x"), []byte("2"))
	r, err := l.Commit(ctx, b)
	t.Log(r, err)
	for rec, err := range l.Feed(ctx, mainstem.Filter{}) {
		t.Log(rec, err)
	}
	rec, err := l.Get(ctx, "a", []byte("x"))
	t.Log(rec, err)
	st, err := l.Check(ctx, func(p mainstem.Problem) { t.Error(p) })
	t.Log(st, err)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
