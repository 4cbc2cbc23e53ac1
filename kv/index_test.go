package kv_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/kv"
)

type member struct {
	Email string `json:"email"`
	City  string `json:"city"`
	Age   int    `json:"age"`
}

var (
	byEmail = kv.Index[member]{Name: "email", Unique: true, Of: func(m member) []kv.Part {
		if m.Email == "" {
			return nil
		}
		return []kv.Part{kv.Text(m.Email)}
	}}
	byCity = kv.Index[member]{Name: "city", Of: func(m member) []kv.Part { return []kv.Part{kv.Text(m.City), kv.Int(int64(m.Age))} }}
)

func openIndexed[T any](t testing.TB, log mainstem.Log, name string, o *kv.Options, indexes ...kv.Index[T]) *kv.Indexed[T] {
	t.Helper()
	return must[*kv.Indexed[T]](t)(kv.OpenIndexed(log, name, o, indexes...))
}

func members(t testing.TB, log mainstem.Log) *kv.Indexed[member] {
	t.Helper()
	return openIndexed(t, log, "app/members", nil, byEmail, byCity)
}

func set[T any](t testing.TB, x *kv.Indexed[T], key string, value T, opts ...kv.PutOption) {
	t.Helper()
	must[kv.Revision](t)(x.Put(t.Context(), key, value, opts...))
}

// found returns the keys that a query of an index yields.
func found[T any](t testing.TB, x *kv.Indexed[T], index string, q *kv.IndexQuery) string {
	t.Helper()
	var keys []string
	for e, err := range x.By(index).List(t.Context(), q) {
		check(t, err)
		keys = append(keys, e.Key)
	}
	n := must[int64](t)(x.By(index).Count(t.Context(), q))
	if n != int64(len(keys)) {
		t.Errorf("%s %+v: counted %d, listed %q", index, q, n, keys)
	}
	return strings.Join(keys, " ")
}

// consistent fails the test if an index does not have exactly the values of the table.
func consistent[T any](t testing.TB, x *kv.Indexed[T]) {
	t.Helper()
	_, err := x.Check(context.WithoutCancel(t.Context()), func(p kv.IndexProblem) { t.Error(p) })
	check(t, err)
}

func TestIndexesFindValues(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx, x := t.Context(), members(t, log)
		if got := found(t, x, "city", nil); got != "" {
			t.Errorf("before the first write: %s", got)
		}
		if got := spaces(t, log); len(got) > 0 {
			t.Errorf("reading created %v", got)
		}
		set(t, x, "1", member{"ada@x", "Paris", 36})
		set(t, x, "2", member{"bob@x", "Paris", 20})
		set(t, x, "3", member{"eve@x", "Oslo", 50})
		set(t, x, "4", member{"", "Rome", 36})
		set(t, x, "5", member{"zoe@x", "Paris", 36})

		e := must[kv.Entry[member]](t)(x.By("email").Get(ctx, kv.Text("bob@x")))
		if e.Key != "2" || e.Value.Age != 20 || e.Revision != 1 {
			t.Errorf("by email: %+v", e)
		}
		_, err := x.By("email").Get(ctx, kv.Text("bob"))
		wantErr(t, err, mainstem.ErrNotFound)
		_, err = x.By("phone").Get(ctx, kv.Text("bob"))
		wantErr(t, err, mainstem.ErrNotFound)

		for _, c := range []struct {
			index string
			q     *kv.IndexQuery
			want  string
		}{
			{"email", nil, "1 2 3 5"},
			{"email", &kv.IndexQuery{Prefix: []kv.Part{kv.TextPrefix("b")}}, "2"},
			{"email", &kv.IndexQuery{Start: []kv.Part{kv.Text("b")}, End: []kv.Part{kv.Text("eve@x")}}, "2"},
			{"email", &kv.IndexQuery{Start: []kv.Part{kv.Text("b")}, End: []kv.Part{kv.Text("eve@x")}, ThroughEnd: true}, "2 3"},
			{"email", &kv.IndexQuery{Start: []kv.Part{kv.Text("eve@x")}, AfterStart: true}, "5"},
			{"email", &kv.IndexQuery{Reverse: true, Limit: 2}, "5 3"},
			{"city", nil, "3 2 1 5 4"},
			{"city", &kv.IndexQuery{Reverse: true}, "4 5 1 2 3"},
			{"city", &kv.IndexQuery{Prefix: []kv.Part{kv.Text("Paris")}}, "2 1 5"},
			{"city", &kv.IndexQuery{Prefix: []kv.Part{kv.Text("Paris"), kv.Int(36)}}, "1 5"},
			{"city", &kv.IndexQuery{Prefix: []kv.Part{kv.Text("Paris")}, Start: []kv.Part{kv.Text("Paris"), kv.Float(20.5)}}, "1 5"},
			{"city", &kv.IndexQuery{Start: []kv.Part{kv.Text("Paris")}, AfterStart: true}, "4"},
			{"city", &kv.IndexQuery{End: []kv.Part{kv.Text("Paris")}, ThroughEnd: true, Limit: 3}, "3 2 1"},
			{"city", &kv.IndexQuery{End: []kv.Part{}}, ""},
		} {
			if got := found(t, x, c.index, c.q); got != c.want {
				t.Errorf("%s %+v: %s, want %s", c.index, c.q, got, c.want)
			}
		}
		set(t, x, "2", member{"bob@y", "Oslo", 20})
		check(t, x.Delete(ctx, "3"))
		check(t, x.Delete(ctx, "none"))
		must[kv.Entry[member]](t)(x.Modify(ctx, "1", func(m member, _ bool) (member, error) { m.City = "Oslo"; return m, nil }))
		if got := found(t, x, "city", nil); got != "2 1 5 4" {
			t.Errorf("after changes: %s", got)
		}
		if got := found(t, x, "email", nil); got != "1 2 5" {
			t.Errorf("after changes, by email: %s", got)
		}
		consistent(t, x)
	})
}

func TestPagesOfAnIndexMeetEveryEntryOnce(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx, x := t.Context(), members(t, log)
		var pairs []kv.Pair[member]
		for i := range 40 {
			pairs = append(pairs, kv.Pair[member]{Key: fmt.Sprint(i), Value: member{Email: fmt.Sprintf("%02d", i), City: fmt.Sprint(i % 3)}})
		}
		must[[]kv.Revision](t)(x.PutMany(ctx, pairs))
		for _, reverse := range []bool{false, true} {
			for _, index := range []string{"email", "city"} {
				want := found(t, x, index, &kv.IndexQuery{Reverse: reverse})
				var got []string
				for q := (&kv.IndexQuery{Reverse: reverse, Limit: 7}); ; {
					page, next, err := x.By(index).Page(ctx, q)
					check(t, err)
					for _, e := range page {
						got = append(got, e.Key)
					}
					if q.After = next; next == "" {
						break
					}
				}
				if strings.Join(got, " ") != want {
					t.Errorf("%s, reverse %v: pages have %v, the list %s", index, reverse, got, want)
				}
			}
		}
		_, _, err := x.By("email").Page(ctx, &kv.IndexQuery{After: "!"})
		wantErr(t, err, mainstem.ErrInvalid)
		_, _, err = x.By("email").Page(ctx, &kv.IndexQuery{Start: []kv.Part{kv.TextPrefix("a")}})
		wantErr(t, err, mainstem.ErrInvalid)
	})
}

func TestUniqueIndexesRefuseASecondKey(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx, x := t.Context(), members(t, log)
		set(t, x, "1", member{Email: "ada@x"})
		_, err := x.Put(ctx, "2", member{Email: "ada@x"})
		var u *kv.UniqueError
		if wantErr(t, err, mainstem.ErrExists); !errors.As(err, &u) || u.Index != "email" || u.HeldBy != "1" || u.Key != "2" || u.Value[0] != kv.Text("ada@x") {
			t.Errorf("a second key: %+v", u)
		}
		set(t, x, "1", member{Email: "ada@x", Age: 7}) // its own
		set(t, x, "1", member{Email: "ada@y"})
		set(t, x, "2", member{Email: "ada@x"}) // free again
		check(t, x.Delete(ctx, "1"))
		set(t, x, "3", member{Email: "ada@y"})
		set(t, x, "4", member{}) // not in the index
		set(t, x, "5", member{})

		b := mainstem.NewBatch()
		check(t, x.PutTo(ctx, b, "6", member{Email: "new"}))
		err = x.PutTo(ctx, b, "7", member{Email: "new"})
		if !errors.As(err, &u) || u.HeldBy != "6" {
			t.Errorf("two keys of one batch: %v", err)
		}
		_, err = log.Commit(ctx, b)
		wantErr(t, err, mainstem.ErrExists)
		_, err = x.PutMany(ctx, []kv.Pair[member]{{Key: "6", Value: member{Email: "new"}}, {Key: "7", Value: member{Email: "new"}}})
		wantErr(t, err, mainstem.ErrExists)

		b = mainstem.NewBatch() // moves a value from key to key
		check(t, x.DeleteTo(ctx, b, "2"))
		check(t, x.PutTo(ctx, b, "8", member{Email: "ada@x"}))
		must[mainstem.Receipt](t)(log.Commit(ctx, b))
		if e := must[kv.Entry[member]](t)(x.By("email").Get(ctx, kv.Text("ada@x"))); e.Key != "8" {
			t.Errorf("the value was moved to %s", e.Key)
		}
		consistent(t, x)
	})
}

// A second write of a key in a batch sees the first.
func TestWritesOfABatchSeeThoseBefore(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx, x := t.Context(), members(t, log)
		set(t, x, "1", member{"a", "Paris", 1})
		b := mainstem.NewBatch()
		check(t, x.PutTo(ctx, b, "1", member{"b", "Oslo", 1}))
		check(t, x.PutTo(ctx, b, "1", member{"a", "Rome", 1}))
		check(t, x.ModifyTo(ctx, b, "1", func(m member, found bool) (member, error) {
			if m.City != "Rome" || !found {
				t.Errorf("the batch gave the key %+v", m)
			}
			m.Age++
			return m, nil
		}))
		check(t, x.PutTo(ctx, b, "2", member{"b", "Oslo", 2}))
		check(t, x.DeleteTo(ctx, b, "2"))
		check(t, x.CreateTo(ctx, b, "3", member{"b", "Oslo", 3}))
		must[mainstem.Receipt](t)(log.Commit(ctx, b))
		if got := found(t, x, "city", nil); got != "3 1" {
			t.Errorf("by city: %s", got)
		}
		if got := found(t, x, "email", nil); got != "1 3" {
			t.Errorf("by email: %s", got)
		}
		revs := must[[]kv.Revision](t)(x.PutMany(ctx, []kv.Pair[member]{{Key: "9", Value: member{"n", "Nice", 1}}, {Key: "9", Value: member{"m", "Metz", 1}}}))
		if !slices.Equal(revs, []kv.Revision{1, 2}) {
			t.Errorf("revisions %v", revs)
		}
		consistent(t, x)
	})
}

// A batch that another write came before fails with Conflict; a write at once begins anew.
func TestConditionsOfIndexedWrites(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx, x := t.Context(), members(t, log)
		set(t, x, "1", member{"a", "Paris", 1})
		b := mainstem.NewBatch()
		check(t, x.PutTo(ctx, b, "1", member{"b", "Oslo", 1}))
		set(t, x, "1", member{"c", "Rome", 1})
		_, err := log.Commit(ctx, b)
		wantErr(t, err, mainstem.ErrConflict)

		b = mainstem.NewBatch()
		check(t, x.PutTo(ctx, b, "2", member{"b", "Oslo", 1}))
		set(t, x, "3", member{"b", "Oslo", 1})
		_, err = log.Commit(ctx, b)
		wantErr(t, err, mainstem.ErrConflict)

		_, err = x.Create(ctx, "1", member{"z", "Oslo", 1})
		wantErr(t, err, mainstem.ErrExists)
		_, err = x.Update(ctx, "1", member{"z", "Oslo", 1}, 1)
		if e := wantErr(t, err, mainstem.ErrConflict); e.Got != 2 {
			t.Errorf("revision %d was found", e.Got)
		}
		_, err = x.Put(ctx, "7", member{"z", "Oslo", 1}, kv.IfExists())
		wantErr(t, err, mainstem.ErrConflict)
		err = x.Delete(ctx, "7", kv.IfExists())
		wantErr(t, err, mainstem.ErrConflict)
		must[kv.Revision](t)(x.Update(ctx, "1", member{"z", "Nice", 1}, 2))
		check(t, x.Purge(ctx, "3", kv.IfRevision(1)))
		if got := found(t, x, "city", nil); got != "1" {
			t.Errorf("by city: %s", got)
		}
		consistent(t, x)
	})
}

// A plain bucket that was opened before the index was declared cannot write past it.
func TestPlainBucketsDoNotWritePastAnIndex(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		plain := open[member](t, log, "app/members", nil)
		put(t, plain, "0", member{"o", "Oslo", 1})
		early := mainstem.NewBatch()
		plain.PutTo(early, "9", member{"e", "Rome", 1})
		x := members(t, log)
		check(t, x.Build(ctx))

		_, err := log.Commit(ctx, early)
		var ix *kv.IndexedError
		if wantErr(t, err, mainstem.ErrConflict); !errors.As(err, &ix) || !slices.Equal(ix.Indexes, []string{"email", "city"}) || ix.Table != "app/members" {
			t.Errorf("a batch from before: %v", err)
		}
		for name, write := range map[string]func() error{
			"put":      func() error { _, err := plain.Put(ctx, "1", member{}); return err },
			"create":   func() error { _, err := plain.Create(ctx, "1", member{}); return err },
			"update":   func() error { _, err := plain.Update(ctx, "0", member{}, 1); return err },
			"delete":   func() error { return plain.Delete(ctx, "0") },
			"purge":    func() error { return plain.Purge(ctx, "0") },
			"put many": func() error { _, err := plain.PutMany(ctx, []kv.Pair[member]{{Key: "1"}, {Key: "2"}}); return err },
			"import": func() error {
				_, err := plain.Import(ctx, slices.Values([]kv.Pair[member]{{Key: "1"}}), nil)
				return err
			},
			"modify": func() error {
				_, err := plain.Modify(ctx, "0", func(m member, _ bool) (member, error) { return m, nil })
				return err
			},
		} {
			err := write()
			if wantErr(t, err, mainstem.ErrInvalid); !errors.As(err, &ix) || errors.Is(err, mainstem.ErrConflict) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := found(t, x, "city", nil); got != "0" {
			t.Errorf("by city: %s", got)
		}
		consistent(t, x)
		check(t, kv.DropIndex(ctx, log, "app", "members", "city"))
		check(t, kv.DropIndex(ctx, log, "app", "members", "email"))
		put(t, plain, "1", member{"p", "Lima", 1})
	})
}

func TestAnIndexOfATableWithValuesIsBuilt(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		plain := open[member](t, log, "app/members", nil)
		for i := range 30 {
			put(t, plain, fmt.Sprint(i), member{fmt.Sprint("m", i), fmt.Sprint(i % 4), i})
		}
		x := members(t, log)
		set(t, x, "new", member{"new", "9", 1}) // declares
		set(t, x, "3", member{"m3", "9", 2})
		_, err := x.By("city").Get(ctx, kv.Text("9"), kv.Int(1))
		if wantErr(t, err, mainstem.ErrUnavailable); !strings.Contains(err.Error(), "of about") {
			t.Errorf("no progress: %v", err)
		}
		infos := must[[]kv.IndexInfo](t)(kv.Indexes(ctx, log, "app", "members"))
		if len(infos) != 2 || infos[0].Name != "city" || infos[0].State != kv.IndexBuilding {
			t.Errorf("indexes %+v", infos)
		}
		check(t, x.Build(ctx))
		if got := found(t, x, "city", &kv.IndexQuery{Prefix: []kv.Part{kv.Text("9")}}); got != "new 3" {
			t.Errorf("by city: %s", got)
		}
		if n := must[int64](t)(x.By("email").Count(ctx, nil)); n != 31 {
			t.Errorf("%d by email", n)
		}
		consistent(t, x)
		check(t, x.Rebuild(ctx, "city"))
		if n := must[int64](t)(x.By("city").Count(ctx, nil)); n != 31 {
			t.Errorf("%d by city after a rebuild", n)
		}
		consistent(t, x)
		wantErr(t, x.Rebuild(ctx, "none"), mainstem.ErrNotFound)
		if got := slices.DeleteFunc(spaces(t, log), func(s string) bool { return !strings.HasPrefix(s, "kv.index/") }); len(got) != 2 {
			t.Errorf("spaces of entries: %v", got)
		}
	})
}

// Two values that are equal stop the build of a unique index; it goes on when they are not equal any more.
func TestBuildOfAUniqueIndexFindsEqualValues(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		plain := open[member](t, log, "app/members", nil)
		put(t, plain, "1", member{Email: "a"})
		put(t, plain, "2", member{Email: "a"})
		put(t, plain, "3", member{Email: "b"})
		x := members(t, log)
		err := x.Build(ctx)
		var u *kv.UniqueError
		if wantErr(t, err, mainstem.ErrExists); !errors.As(err, &u) || u.Key != "2" || u.HeldBy != "1" {
			t.Errorf("two equal values: %v", err)
		}
		_, err = x.By("email").Get(ctx, kv.Text("a"))
		wantErr(t, err, mainstem.ErrUnavailable)
		set(t, x, "4", member{Email: "a2"}) // writers go on
		_, err = x.Put(ctx, "5", member{Email: "a2"})
		wantErr(t, err, mainstem.ErrExists)
		set(t, x, "2", member{Email: "c"})
		check(t, x.Build(ctx))
		if got := found(t, x, "email", nil); got != "1 4 3 2" {
			t.Errorf("by email: %s", got)
		}
		consistent(t, x)
	})
}

// All programs that write a table know all its indexes, in one version.
func TestProgramsAgreeOnIndexes(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		old := members(t, log)
		set(t, old, "1", member{"a", "Paris", 1})

		less := openIndexed(t, log, "app/members", nil, byEmail)
		_, err := less.Put(ctx, "2", member{})
		if wantErr(t, err, mainstem.ErrUnavailable); !strings.Contains(err.Error(), "city") {
			t.Errorf("a program without the index: %v", err)
		}
		if got := found(t, less, "email", nil); got != "1" { // it can read
			t.Errorf("by email: %s", got)
		}
		if got := found(t, less, "city", nil); got != "1" { // also by an index of others
			t.Errorf("by city: %s", got)
		}
		other := byCity
		other.Unique = true
		_, err = openIndexed(t, log, "app/members", nil, byEmail, other).Put(ctx, "2", member{})
		wantErr(t, err, mainstem.ErrUnavailable)

		other.Version, other.Unique = 2, false
		other.Of = func(m member) []kv.Part { return []kv.Part{kv.Text(strings.ToLower(m.City))} }
		newer := openIndexed(t, log, "app/members", nil, byEmail, other)
		_, err = newer.By("city").Get(ctx, kv.Text("paris"))
		wantErr(t, err, mainstem.ErrUnavailable)
		check(t, newer.Build(ctx))
		if e := must[kv.Entry[member]](t)(newer.By("city").Get(ctx, kv.Text("paris"))); e.Key != "1" {
			t.Errorf("by the newer index: %+v", e)
		}
		_, err = old.Put(ctx, "2", member{"b", "Oslo", 1})
		wantErr(t, err, mainstem.ErrUnavailable)
		_, err = old.By("city").Get(ctx, kv.Text("Paris"))
		wantErr(t, err, mainstem.ErrUnavailable)
		set(t, newer, "2", member{"b", "Oslo", 1})
		consistent(t, newer)
	})
}

// An index over a field of JSON is kept by every program, whatever it opens the values as.
func TestIndexesOfAField(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		raw := openIndexed(t, log, "app/members", nil, kv.Index[[]byte]{Name: "age", Field: "more.age"})
		for key, value := range map[string]string{
			"1": `{"more":{"age":7}}`, "2": `{"more":{"age":-1.5}}`, "3": `{"more":{"age":"7"}}`, "4": `{"more":{"age":true}}`,
			"5": `{"more":{"age":null}}`, "6": `{"more":[]}`, "7": `no JSON`, "8": `{"more":{"age":9007199254740993}}`, "9": `{"more":{"age":9007199254740992}}`,
		} {
			set(t, raw, key, []byte(value))
		}
		if got := found(t, raw, "age", nil); got != "4 2 1 9 8 3" {
			t.Errorf("by age: %s", got)
		}
		type deep struct {
			More member `json:"more"`
		}
		typed := openIndexed[deep](t, log, "app/members", &kv.Options{Codec: codec.JSON})
		set(t, typed, "7", deep{member{Age: 8}})
		if got := found(t, typed, "age", &kv.IndexQuery{Prefix: []kv.Part{kv.ParsePart("8")}}); got != "7" {
			t.Errorf("by age: %s", got)
		}
		_, err := open[[]byte](t, log, "app/members", nil).Put(ctx, "1", nil)
		wantErr(t, err, mainstem.ErrInvalid)
		consistent(t, raw)
	})
}

// An entry is that of the value as it is read, which is not always the one that was written.
func TestEntriesAreThoseOfValuesAsTheyAreRead(t *testing.T) {
	log := must[mainstem.Log](t)(memory(t))
	x := openIndexed(t, log, "t", nil, kv.Index[member]{Name: "city", Of: byCity.Of})
	set(t, x, "1", member{City: "\xff"})
	if got := found(t, x, "city", &kv.IndexQuery{Prefix: []kv.Part{kv.Text("\ufffd")}}); got != "1" {
		t.Errorf("by the city as it is read: %q", got)
	}
	consistent(t, x)
}

func TestDroppingATableDropsItsIndexes(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx, x := t.Context(), members(t, log)
		set(t, x, "1", member{"a", "Paris", 1})
		near := openIndexed(t, log, "app/members.city", nil, kv.Index[string]{Name: "all", Of: func(s string) []kv.Part { return []kv.Part{kv.Text(s)} }})
		set(t, near, "k", "v")
		check(t, x.Drop(ctx))
		if got := found(t, x, "city", nil); got != "" {
			t.Errorf("by city: %s", got)
		}
		set(t, x, "2", member{"a", "Oslo", 1}) // the value of the key that is gone
		if got := found(t, x, "email", nil); got != "2" {
			t.Errorf("by email: %s", got)
		}
		check(t, kv.DropDatabase(ctx, log, "app"))
		for _, s := range spaces(t, log) {
			if strings.HasPrefix(s, "kv.index/") || strings.HasPrefix(s, "kv/") {
				t.Errorf("space %s is left", s)
			}
		}
		wantErr(t, kv.DropIndex(ctx, log, "app", "members", "city"), mainstem.ErrNotFound)
	})
}

// What goes past this package is found in both directions, and a rebuild mends it.
func TestCheckFindsWhatRawWritesBreak(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		ctx, x := t.Context(), members(t, log)
		set(t, x, "1", member{"a", "Paris", 1})
		set(t, x, "2", member{"b", "Paris", 1})
		b := mainstem.NewBatch()
		b.Delete(x.Space(), []byte("1"))
		b.Put(x.Space(), []byte("3"), []byte(`{"email":"c"}`))
		b.Put(x.Space(), []byte("2"), []byte(`{"email":"b2","city":"Paris","age":1}`))
		must[mainstem.Receipt](t)(log.Commit(ctx, b))
		problems := map[string]int{}
		done := must[kv.CheckedIndexes](t)(x.Check(ctx, func(p kv.IndexProblem) { problems[p.Index+" "+p.Key]++ }))
		if want := map[string]int{"email 1": 1, "city 1": 1, "email 3": 1, "city 3": 1, "email 2": 2}; fmt.Sprint(problems) != fmt.Sprint(want) {
			t.Errorf("found %v, want %v", problems, want)
		}
		if done.Values != 2 || done.Entries != 4 {
			t.Errorf("checked %+v", done)
		}
		for _, e := range collect(t, x.By("city").List(ctx, nil)) { // no reader sees what is not so
			if e.Key != "2" {
				t.Errorf("by city: %+v", e)
			}
		}
		_, err := x.By("email").Get(ctx, kv.Text("a"))
		wantErr(t, err, mainstem.ErrNotFound)
		set(t, x, "4", member{Email: "a"}) // an entry that is left over does not hold the value
		check(t, errors.Join(x.Rebuild(ctx, "email"), x.Rebuild(ctx, "city")))
		consistent(t, x)
	})
}

// Entries expire with their values, also those that were written when the index was built.
func TestEntriesExpireWithTheirValues(t *testing.T) {
	eachClock(t, func(t *testing.T, log sweeper, clock *testkit.Clock) {
		ctx := t.Context()
		plain := open[member](t, log, "app/members", nil)
		put(t, plain, "0", member{"z", "Oslo", 0}, kv.TTL(time.Minute))
		x := members(t, log)
		check(t, x.Build(ctx))
		set(t, x, "1", member{"a", "Paris", 1}, kv.TTL(time.Minute))
		set(t, x, "2", member{"b", "Paris", 1})
		set(t, x, "3", member{"c", "Paris", 1}, kv.TTL(time.Minute))
		clock.Advance(30 * time.Second)
		set(t, x, "3", member{"c", "Paris", 1}, kv.TTL(time.Minute)) // longer, with the same parts
		set(t, x, "2", member{"b", "Paris", 1}, kv.TTL(time.Minute))
		set(t, x, "2", member{"b", "Paris", 1}) // without end again
		clock.Advance(30 * time.Second)
		for range 2 { // before and after the sweep
			if got := found(t, x, "city", nil); got != "2 3" {
				t.Errorf("by city: %s", got)
			}
			if got := found(t, x, "email", nil); got != "2 3" {
				t.Errorf("by email: %s", got)
			}
			check(t, log.Sweep(ctx))
		}
		set(t, x, "4", member{"z", "Paris", 2}) // the values of those that have expired
		set(t, x, "5", member{"a", "Paris", 2})
		clock.Advance(time.Minute)
		if got := found(t, x, "city", nil); got != "2 4 5" {
			t.Errorf("by city: %s", got)
		}
		if got := found(t, x, "email", nil); got != "5 2 4" {
			t.Errorf("by email: %s", got)
		}
		consistent(t, x)
	})
}

func TestIndexesThatCannotBe(t *testing.T) {
	log := must[mainstem.Log](t)(memory(t))
	of := func(string) []kv.Part { return nil }
	for name, i := range map[string][]kv.Index[string]{
		"no name":        {{Of: of}},
		"a dot":          {{Name: "a.b", Of: of}},
		"too long":       {{Name: strings.Repeat("x", 65), Of: of}},
		"nothing":        {{Name: "a"}},
		"both":           {{Name: "a", Of: of, Field: "b"}},
		"a wrong field":  {{Name: "a", Field: "b..c"}},
		"twice the same": {{Name: "a", Of: of}, {Name: "a", Of: of}},
	} {
		_, err := kv.OpenIndexed(log, "t", nil, i...)
		if !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := kv.OpenIndexed[string](log, "t", &kv.Options{MaxBytes: 1})
	wantErr(t, err, mainstem.ErrInvalid)
	x := openIndexed(t, log, "t", nil, kv.Index[string]{Name: "a", Of: func(s string) []kv.Part { return []kv.Part{kv.Text(s)} }})
	_, err = x.Put(t.Context(), "k", strings.Repeat("x", 5000))
	wantErr(t, err, mainstem.ErrInvalid)
	set(t, x, "k", "v")
	wantErr(t, open[string](t, log, "t", &kv.Options{MaxAge: time.Hour}).Alter(t.Context()), mainstem.ErrInvalid)
	check(t, open[string](t, log, "t", &kv.Options{History: 5}).Alter(t.Context()))
}
