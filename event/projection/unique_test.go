package projection_test

import (
	"context"
	"errors"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/event/readmodel"
)

type mailbox struct{ ID, Email string }

// A value of a unique index moves from one row to another within one commit, in whatever order the
// handler uses the rows first.
func TestUniqueValueMovesBetweenRows(t *testing.T) {
	f := newFixture(t)
	boxes, err := readmodel.Open(f.log, "shop/boxes", &readmodel.Options[mailbox]{
		Key: func(m mailbox) string { return m.ID }, Indexes: []readmodel.Index{{Fields: []string{"Email"}, Unique: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	to := func(m mailbox) func(mailbox, bool) (mailbox, error) {
		return func(mailbox, bool) (mailbox, error) { return m, nil }
	}
	moves := map[string]func(ctx context.Context, tx *projection.Tx) error{
		"from a deleted row": func(ctx context.Context, tx *projection.Tx) error {
			if _, err := projection.Get(ctx, tx, boxes, "to"); !errors.Is(err, mainstem.ErrNotFound) {
				return err
			}
			projection.Delete(tx, boxes, "from")
			projection.Put(tx, boxes, mailbox{"to", "x"})
			return nil
		},
		"from a row that is deleted after": func(_ context.Context, tx *projection.Tx) error {
			projection.Put(tx, boxes, mailbox{"to", "x"})
			projection.Delete(tx, boxes, "from")
			return nil
		},
		"from a changed row": func(ctx context.Context, tx *projection.Tx) error {
			if _, err := projection.Get(ctx, tx, boxes, "to"); !errors.Is(err, mainstem.ErrNotFound) {
				return err
			}
			return errors.Join(projection.Modify(ctx, tx, boxes, "from", to(mailbox{"from", "y"})), projection.Modify(ctx, tx, boxes, "to", to(mailbox{"to", "x"})))
		},
	}
	s := f.inline(nil, f.projection("boxes", 1, func(ctx context.Context, tx *projection.Tx, ev paid, _ event.Recorded) error {
		return moves[ev.Customer](ctx, tx)
	}))
	for name := range moves {
		if err := errors.Join(boxes.Clear(t.Context()), boxes.Insert(t.Context(), mailbox{"from", "x"})); err != nil {
			t.Fatal(err)
		}
		if err := f.payInline(s, 1, name, 1); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err := boxes.FindOne(t.Context(), readmodel.Where("Email", readmodel.Eq, "x")); err != nil || got.ID != "to" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
