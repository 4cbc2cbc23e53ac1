package kv_test

import (
	"errors"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// Modify may edit what the old value refers to, by a pointer or a slice, and return it. The entry of
// the old value is replaced nevertheless.
func TestModifyEditsTheOldValueInPlace(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		x := openIndexed(t, log, "app/pointers", nil, kv.Index[*member]{Name: "email", Unique: true, Of: func(m *member) []kv.Part {
			return []kv.Part{kv.Text(m.Email)}
		}})
		rename := func(name string) func(*member, bool) (*member, error) {
			return func(m *member, _ bool) (*member, error) { m.Email = name; return m, nil }
		}
		at := func(email, key string) {
			t.Helper()
			if e, err := x.By("email").Get(ctx, kv.Text(email)); err != nil || e.Key != key {
				t.Errorf("by %s: %+v, %v", email, e, err)
			}
			var taken *kv.UniqueError
			if _, err := x.Put(ctx, "other", &member{Email: email}); !errors.As(err, &taken) || taken.HeldBy != key {
				t.Errorf("a second key with %s: %v", email, err)
			}
			consistent(t, x)
		}
		set(t, x, "1", &member{Email: "a"})
		must[kv.Entry[*member]](t)(x.Modify(ctx, "1", rename("b")))
		at("b", "1")
		must[kv.Entry[*member]](t)(x.Modify(ctx, "1", rename("c"), kv.TTL(time.Hour)))
		at("c", "1")
		batch := mainstem.NewBatch()
		check(t, x.ModifyTo(ctx, batch, "1", rename("d")))
		check(t, x.ModifyTo(ctx, batch, "1", rename("e"))) // the value in the batch
		must[mainstem.Receipt](t)(log.Commit(ctx, batch))
		at("e", "1")
		if got := found(t, x, "email", nil); got != "1" {
			t.Errorf("by email: %s", got)
		}

		type tagged struct{ Tags []string }
		y := openIndexed(t, log, "app/slices", nil, kv.Index[tagged]{Name: "tag", Of: func(v tagged) []kv.Part {
			return []kv.Part{kv.Text(v.Tags[0])}
		}})
		set(t, y, "1", tagged{[]string{"old"}})
		must[kv.Entry[tagged]](t)(y.Modify(ctx, "1", func(v tagged, _ bool) (tagged, error) { v.Tags[0] = "new"; return v, nil }))
		if got := found(t, y, "tag", &kv.IndexQuery{Prefix: []kv.Part{kv.Text("new")}}); got != "1" {
			t.Errorf("by the new tag: %s", got)
		}
		consistent(t, y)
	})
}
