package readmodel_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/readmodel"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// slowReader is a log that calls meanwhile, once, when the row of an alias has been read.
type slowReader struct {
	mainstem.Log
	meanwhile func()
}

func (l *slowReader) Get(ctx context.Context, space string, key []byte) (mainstem.Record, error) {
	r, err := l.Log.Get(ctx, space, key)
	if do := l.meanwhile; do != nil && space == "kv/readmodel/aliases" {
		l.meanwhile = nil
		do()
	}
	return r, err
}

type part struct {
	ID    string
	Batch int
}

// A read of an alias whose table is replaced and removed after the alias was read, and before the table
// is, reads the new table.
func TestAliasThatMovesMeanwhile(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		slow := &slowReader{Log: log}
		alias, err := readmodel.OpenAlias(slow, "shop/parts", &readmodel.Options[part]{Key: func(p part) string { return p.ID }})
		if err != nil {
			t.Fatal(err)
		}
		version := 0
		move := func() { // to a version that has one part more, and remove the one before
			t.Helper()
			before, err := alias.Version(version)
			if err != nil {
				t.Fatal(err)
			}
			version++
			after, err := alias.Version(version)
			if err != nil {
				t.Fatal(err)
			}
			b := mainstem.NewBatch()
			for i := range version {
				if err := after.InsertTo(t.Context(), b, part{fmt.Sprint(i), version}); err != nil {
					t.Fatal(err)
				}
			}
			alias.PointTo(b, version)
			if _, err := log.Commit(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			if version > 1 {
				err = before.Bucket().Drop(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		move()
		for name, read := range map[string]func() (any, error){
			"Get":     func() (any, error) { return alias.Get(t.Context(), "0") },
			"GetMany": func() (any, error) { return alias.GetMany(t.Context(), "0", "x") },
			"Find":    func() (any, error) { return alias.Find(t.Context(), readmodel.All().Limit(1)) },
			"FindOne": func() (any, error) { return alias.FindOne(t.Context(), readmodel.All()) },
			"Count":   func() (any, error) { return alias.Count(t.Context(), readmodel.All()) },
		} {
			slow.meanwhile = move
			got, err := read()
			first := part{"0", version}
			want := map[string]any{"Get": first, "GetMany": []part{first}, "Find": []part{first}, "FindOne": first, "Count": version}[name]
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %v, %v, want %v", name, got, err, want)
			}
		}
		if version != 6 {
			t.Errorf("the alias is at version %d, want 6: not all reads have read it", version)
		}
		if _, err := alias.Get(t.Context(), "x"); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("a key that is not there: %v, want NotFound", err)
		}
	})
}
