package readmodel_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/event/readmodel"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type address struct{ City string }

type row struct {
	ID    string
	Name  string
	Count int
	Size  uint8
	Price *float64
	Open  bool
	At    time.Time
	Tags  []string
	Home  *address
	Any   any
	Inner inner
}

type inner struct{ other int }

func newTable(t testing.TB, log mainstem.Log) *readmodel.Table[row] {
	t.Helper()
	table, err := readmodel.Open(log, "test/rows", &readmodel.Options[row]{Key: func(r row) string { return r.ID }})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func ids(rows []row) string {
	var out []string
	for _, r := range rows {
		out = append(out, r.ID)
	}
	return strings.Join(out, " ")
}

func ptr[T any](v T) *T { return &v }

func TestEntries(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		table, ctx := newTable(t, log), t.Context()
		a, b := row{ID: "a", Count: 1}, row{ID: "b", Count: 2}
		if err := table.Update(ctx, a); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("an update of nothing: %v", err)
		}
		if err := errors.Join(table.Insert(ctx, a), table.Upsert(ctx, b), table.Upsert(ctx, b)); err != nil {
			t.Fatal(err)
		}
		if err := table.Insert(ctx, a); !errors.Is(err, mainstem.ErrExists) {
			t.Errorf("a second insert: %v", err)
		}
		a.Count = 7
		if err := table.Update(ctx, a); err != nil {
			t.Fatal(err)
		}
		if got, err := table.Get(ctx, "a"); err != nil || got.Count != 7 {
			t.Errorf("got %+v, %v", got, err)
		}
		if _, err := table.Get(ctx, "x"); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("got what is not there: %v", err)
		}
		if got, err := table.GetMany(ctx, "b", "x", "a"); err != nil || ids(got) != "b a" {
			t.Errorf("got many: %v, %v", got, err)
		}
		batch := mainstem.NewBatch()
		err := errors.Join(
			table.InsertTo(ctx, batch, row{ID: "c"}),
			table.UpdateTo(ctx, batch, row{ID: "a", Count: 8}),
			table.UpsertTo(ctx, batch, row{ID: "d"}),
			table.DeleteTo(ctx, batch, "b"),
		)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.Commit(ctx, batch); err != nil {
			t.Fatal(err)
		}
		if got, err := table.Find(ctx, readmodel.All()); err != nil || ids(got) != "a c d" || got[0].Count != 8 {
			t.Errorf("after the batch: %+v, %v", got, err)
		}
		for what, write := range map[string]func(b *mainstem.Batch) error{
			"insert": func(b *mainstem.Batch) error { return table.InsertTo(ctx, b, row{ID: "a"}) },
			"update": func(b *mainstem.Batch) error { return table.UpdateTo(ctx, b, row{ID: "x"}) },
		} {
			batch := mainstem.NewBatch()
			if err := write(batch); err != nil {
				t.Fatal(err)
			}
			if _, err := log.Commit(ctx, batch); !errors.Is(err, mainstem.ErrConflict) {
				t.Errorf("%s into a batch: %v", what, err)
			}
		}
		if err := errors.Join(table.Delete(ctx, "a"), table.Delete(ctx, "x")); err != nil {
			t.Error(err)
		}
		if n, err := table.Count(ctx, readmodel.All()); n != 2 || err != nil {
			t.Errorf("counted %d, %v", n, err)
		}
		if err := table.Clear(ctx); err != nil {
			t.Error(err)
		}
		if n, err := table.Count(ctx, readmodel.All()); n != 0 || err != nil {
			t.Errorf("counted %d after Clear, %v", n, err)
		}
	})
}

// A table without a feed answers like another one, and cannot be watched.
func TestNoFeed(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		table, err := readmodel.Open(log, "test/quiet", &readmodel.Options[row]{
			Key: func(r row) string { return r.ID }, NoFeed: true, Indexes: []readmodel.Index{{Fields: []string{"Count"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(table.Upsert(t.Context(), row{ID: "a", Count: 1}), table.Upsert(t.Context(), row{ID: "b", Count: 2})); err != nil {
			t.Fatal(err)
		}
		found, err := table.Find(t.Context(), readmodel.Where("Count", readmodel.Gt, 1))
		if err != nil || ids(found) != "b" {
			t.Errorf("found %q, %v", ids(found), err)
		}
		for _, err := range table.Bucket().Watch(t.Context(), nil) {
			if !errors.Is(err, mainstem.ErrUnsupported) {
				t.Errorf("a watch: %v", err)
			}
			break
		}
	})
}

func TestComparisons(t *testing.T) {
	table, ctx := newTable(t, testengines.Memory(t)), t.Context()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for _, r := range []row{
		{ID: "1", Name: "Ada", Count: -1, Size: 1, Price: ptr(1.5), At: noon, Tags: []string{"x", "y"}, Home: &address{"Bern"}},
		{ID: "2", Name: "ada_", Count: 0, Size: 2, Open: true, At: noon.Add(time.Hour), Tags: []string{}},
		{ID: "3", Name: "Größe%", Count: 1 << 53, Size: 255, Price: ptr(-2.0), At: noon.Add(2 * time.Hour), Home: &address{"Rome"}},
	} {
		if err := table.Upsert(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	const (
		eq, ne, gt, ge, lt, le = readmodel.Eq, readmodel.Ne, readmodel.Gt, readmodel.Ge, readmodel.Lt, readmodel.Le
		in, notIn, like        = readmodel.In, readmodel.NotIn, readmodel.Like
		contains, between      = readmodel.Contains, readmodel.Between
	)
	w := readmodel.Where
	for _, c := range []struct {
		q    *readmodel.Query
		want string
	}{
		{readmodel.All(), "1 2 3"},
		{w("Name", eq, "Ada"), "1"}, {w("Name", ne, "Ada"), "2 3"}, {w("Name", gt, "Ada"), "2 3"}, {w("Name", le, "Größe%"), "1 3"},
		{w("Name", in, "Ada", "ada_"), "1 2"}, {w("Name", in, []string{"Ada"}), "1"}, {w("Name", in), ""}, {w("Name", notIn, "Ada"), "2 3"}, {w("Name", notIn), "1 2 3"},
		{w("Name", like, "%da%"), "1 2"}, {w("Name", like, "_da"), "1"}, {w("Name", like, `ada\_`), "2"}, {w("Name", like, `%\%`), "3"}, {w("Name", like, "Gr__e_"), "3"},
		{w("Name", like, ""), ""}, {w("Name", like, "%"), "1 2 3"}, {w("Name", like, "%%a%%"), "1 2"}, {w("Name", contains, "da"), "1 2"}, {w("Name", contains, ""), "1 2 3"},
		{w("Count", eq, uint64(0)), "2"}, {w("Count", eq, -1.0), "1"}, {w("Count", gt, int8(-1)), "2 3"}, {w("Count", ge, 1<<53), "3"}, {w("Count", between, -1, 0), "1 2"}, {w("Count", between, 1, 0), ""},
		{w("Size", eq, 255), "3"}, {w("Size", lt, 2.0), "1"}, {w("Size", in, []int{1, 2}), "1 2"},
		{w("Price", gt, 1), "1"}, {w("Price", ne, 1.5), "3"}, {w("Price", notIn, 1.5), "3"}, {w("Price", readmodel.IsNull), "2"}, {w("Price", readmodel.NotNull), "1 3"}, {w("Price", eq, math.NaN()), ""},
		{w("Open", eq, true), "2"}, {w("Open", ne, true), "1 3"},
		{w("At", gt, noon), "2 3"}, {w("At", eq, noon.In(time.FixedZone("x", 3600))), "1"}, {w("At", between, noon, noon.Add(time.Hour)), "1 2"},
		{w("Tags", contains, "y"), "1"}, {w("Tags", contains, "z"), ""},
		{w("Home.City", eq, "Bern"), "1"}, {w("Home.City", readmodel.IsNull), "2"}, {w("Home", readmodel.NotNull), "1 3"}, {w("Home.City", ne, "Bern"), "3"},
		{w("Name", eq, "Ada").And("Count", eq, 0).Or("Size", eq, 255).Or("Open", eq, true), "2 3"},
		{readmodel.All().And("Count", lt, 0), "1"},
		{readmodel.All().OrderBy("Price", readmodel.Asc), "2 3 1"}, {readmodel.All().OrderBy("Price", readmodel.Desc), "1 3 2"},
		{readmodel.All().OrderBy("Open", readmodel.Desc).OrderBy("Count", readmodel.Desc), "2 3 1"},
		{readmodel.All().Offset(1), "2 3"}, {readmodel.All().Limit(2), "1 2"}, {readmodel.All().Offset(5), ""},
		{readmodel.All().Offset(1).Limit(math.MaxInt), "2 3"}, {readmodel.All().OrderBy("At", readmodel.Asc).Offset(1).Limit(math.MaxInt), "2 3"},
		{readmodel.All().OrderBy("At", readmodel.Desc).Offset(1).Limit(1), "2"}, {readmodel.All().OrderBy("At", readmodel.Desc).Offset(9), ""},
	} {
		got, err := table.Find(ctx, c.q)
		if err != nil || ids(got) != c.want {
			t.Errorf("%+v: %q, %v; want %q", c.q, ids(got), err, c.want)
		}
	}
	if got, err := table.FindOne(ctx, w("Count", ge, 0)); err != nil || got.ID != "2" {
		t.Errorf("found one: %+v, %v", got, err)
	}
	if _, err := table.FindOne(ctx, w("Count", gt, math.MaxInt64)); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("found none: %v", err)
	}
	if n, err := table.DeleteMany(ctx, w("Count", ge, 0)); n != 2 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
}

func TestWrongQueries(t *testing.T) {
	log := testengines.Memory(t)
	table := newTable(t, log)
	w := readmodel.Where
	var wrong *readmodel.FieldError
	for _, q := range []*readmodel.Query{
		w("Missing", readmodel.Eq, 1), w("Inner.other", readmodel.Eq, inner{other: 1}.other), w("", readmodel.Eq, 1), w("Home.Street", readmodel.Eq, "x"), w("Name.X", readmodel.Eq, "x"), w("At.wall", readmodel.Eq, 1),
		w("Count", readmodel.Eq, "1"), w("Count", readmodel.Eq, 1.5), w("Count", readmodel.Eq, uint64(1<<63)), w("Count", readmodel.Eq, nil), w("Count", readmodel.Eq, math.Inf(1)), w("Count", readmodel.Eq, math.NaN()),
		w("Size", readmodel.Eq, -1), w("Price", readmodel.Eq, 1<<53+1), w("Name", readmodel.Eq, []byte("x")), w("Open", readmodel.Gt, false), w("Open", readmodel.Between, false, true),
		w("Count", readmodel.Eq), w("Count", readmodel.Eq, 1, 2), w("Count", readmodel.Between, 1), w("Count", readmodel.IsNull, 1), w("Count", readmodel.Like, "1"), w("Count", readmodel.Contains, 1),
		w("Tags", readmodel.Eq, "x"), w("Tags", readmodel.Contains, 1), w("Any", readmodel.Eq, 1), w("Home", readmodel.Eq, address{}), w("Name", readmodel.Op(99), "x"),
		readmodel.All().OrderBy("Tags", readmodel.Asc), readmodel.All().OrderBy("Missing", readmodel.Asc),
	} {
		_, err := table.Find(t.Context(), q)
		_, err2 := table.Count(t.Context(), q)
		_, err3 := table.Explain(q)
		for _, err := range []error{err, err2, err3} {
			if !errors.As(err, &wrong) || !errors.Is(err, mainstem.ErrInvalid) || wrong.Type != "readmodel_test.row" {
				t.Errorf("%+v: %v, want a FieldError", q, err)
			}
		}
	}
	for _, q := range []*readmodel.Query{readmodel.All().Limit(-1), readmodel.All().Offset(-1), readmodel.All().After("?"), readmodel.All().After("e30x"), readmodel.All().OrderBy("Name", readmodel.Asc).After("eyJrIjoiYSJ9")} {
		if _, err := table.Find(t.Context(), q); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%+v: %v, want Invalid", q, err)
		}
	}
	for what, err := range map[string]error{
		"no key":     second(readmodel.Open[row](log, "x", nil)),
		"no struct":  second(readmodel.Open(log, "x", &readmodel.Options[int]{Key: func(int) string { return "" }})),
		"wrong name": second(readmodel.Open(log, "x/y/z", &readmodel.Options[row]{Key: func(row) string { return "" }})),
	} {
		if !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestExplain(t *testing.T) {
	table := newTable(t, testengines.Memory(t))
	for q, want := range map[*readmodel.Query]string{
		readmodel.All():                             "reads all entries of table test/rows: the table has no index",
		readmodel.All().Limit(1):                    "reads all entries of table test/rows, until the limit is reached: the table has no index",
		readmodel.All().After("eyJrIjoiWVE9PSJ9"):   "reads the entries of table test/rows from the cursor on: the table has no index",
		readmodel.All().OrderBy("Name", 0).Limit(1): "reads all entries of table test/rows, and sorts those that are selected in memory: the table has no index",
		readmodel.Where("Name", readmodel.Eq, "x").And("Count", readmodel.Gt, 1): "reads all entries of table test/rows: the table has no index",
	} {
		if got, err := table.Explain(q); got != want || err != nil {
			t.Errorf("%+v: %q, %v; want %q", q, got, err, want)
		}
	}
}

// A walk page by page returns the entries of one query, in any order.
func TestPages(t *testing.T) { testengines.Each(t, testPages) }

func testPages(t *testing.T, log mainstem.Log) {
	table := newTable(t, log)
	b := mainstem.NewBatch()
	for i := range 60 {
		r := row{ID: fmt.Sprintf("k%02d\xff", i), Count: i % 5, Name: string([]byte{byte(200 + i%3)}), At: time.Unix(int64(i%4), 1)}
		if i%7 != 0 {
			r.Price = ptr([]float64{1, math.MaxFloat64, -1}[i%3])
		}
		if err := table.UpsertTo(t.Context(), b, r); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := log.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		build := func() *readmodel.Query { return readmodel.Where("Count", readmodel.Ne, 3) }
		orders := rapid.SliceOfN(rapid.SampledFrom([]string{"Count", "Name", "Price", "At", "ID", "Open"}), 0, 3).Draw(rt, "orders")
		directions := rapid.SliceOfN(rapid.SampledFrom([]readmodel.Direction{readmodel.Asc, readmodel.Desc}), 3, 3).Draw(rt, "directions")
		with := func(q *readmodel.Query) *readmodel.Query {
			for i, o := range orders {
				q.OrderBy(o, directions[i])
			}
			return q
		}
		want, err := table.Find(t.Context(), with(build()))
		if err != nil || len(want) != 48 {
			rt.Fatal(len(want), err)
		}
		limit := rapid.IntRange(1, 20).Draw(rt, "limit")
		var got []row
		for next, pages := "", 0; ; pages++ {
			page, after, err := table.Page(t.Context(), with(build()).Limit(limit).After(next))
			if err != nil || pages > 60 {
				rt.Fatal(pages, err)
			}
			got = append(got, page...)
			if next = after; next == "" {
				break
			}
		}
		if ids(got) != ids(want) {
			rt.Fatalf("by pages of %d: %s\nat once: %s", limit, ids(got), ids(want))
		}
	})
}

// conflicting is a log on which somebody else changes an entry before some of the commits.
type conflicting struct {
	mainstem.Log
	commits int
	change  func(commit int)
}

func (c *conflicting) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	c.commits++
	c.change(c.commits)
	return c.Log.Commit(ctx, b)
}

// DeleteMany removes no more than it was asked for, also if entries change meanwhile.
func TestDeleteManyBesideChanges(t *testing.T) { testengines.Each(t, testDeleteManyBesideChanges) }

func testDeleteManyBesideChanges(t *testing.T, under mainstem.Log) {
	direct := newTable(t, under)
	b := mainstem.NewBatch()
	for i := range 1500 {
		if err := direct.UpsertTo(t.Context(), b, row{ID: fmt.Sprintf("%04d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := under.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	log := &conflicting{Log: under}
	log.change = func(commit int) {
		if commit == 2 { // one of the second five hundred
			if err := direct.Upsert(t.Context(), row{ID: "0700", Name: "changed"}); err != nil {
				t.Error(err)
			}
		}
	}
	if n, err := newTable(t, log).DeleteMany(t.Context(), readmodel.Where("Name", readmodel.Eq, "").Limit(1100)); n != 1100 || err != nil {
		t.Errorf("removed %d, %v; want 1100", n, err)
	}
	left, err := direct.Find(t.Context(), readmodel.All())
	if err != nil || len(left) != 400 || left[0].Name != "changed" || left[1].ID != "1101" {
		t.Errorf("%d are left, %v; the first are %v", len(left), err, ids(left[:min(len(left), 2)]))
	}
	if log.commits != 4 {
		t.Errorf("it took %d commits, want 4", log.commits)
	}
}

// A pattern with many % takes no exponential time.
func FuzzLike(f *testing.F) {
	f.Add("aaaaaaaaaaaaaaaaaaaaaaaaaaaaab", "%a%a%a%a%a%a%a%a%a%a%a%c")
	f.Add("", "%")
	f.Add(`a%b\`, `a\%_\`)
	f.Fuzz(func(t *testing.T, text, pattern string) {
		if len(text) > 200 || len(pattern) > 100 {
			t.Skip("longer ones take longer and prove no more")
		}
		got, want := readmodel.LikeForTest(text, pattern), likeByDefinition([]rune(text), []rune(pattern))
		if got != want {
			t.Errorf("%q like %q is %v", text, pattern, got)
		}
	})
}

// likeByDefinition is LIKE by a table over all beginnings.
func likeByDefinition(text, pattern []rune) bool {
	reach := make([]bool, len(text)+1)
	reach[0] = true
	for i := 0; i < len(pattern); i++ {
		next := make([]bool, len(text)+1)
		r, literal := pattern[i], false
		if r == '\\' && i+1 < len(pattern) {
			i++
			r, literal = pattern[i], true
		}
		for at, ok := range reach {
			switch {
			case !ok:
			case r == '%' && !literal:
				for j := at; j <= len(text); j++ {
					next[j] = true
				}
			case at < len(text) && (r == '_' && !literal || text[at] == r):
				next[at+1] = true
			}
		}
		reach = next
	}
	return reach[len(text)]
}

// A walk by pages passes times of every year and every zone.
func TestPagesInTheOrderOfTimes(t *testing.T) {
	type moment struct {
		ID string
		At time.Time
	}
	table, err := readmodel.Open(testengines.Memory(t), "test/moments", &readmodel.Options[moment]{Key: func(m moment) string { return m.ID }, Codec: codec.Gob})
	if err != nil {
		t.Fatal(err)
	}
	ctx, sunTime := t.Context(), time.FixedZone("", 19*60+32)
	want := []time.Time{
		time.Date(-4712, 1, 1, 0, 0, 0, 5, time.UTC), {}, time.Date(1900, 1, 1, 0, 0, 0, 1, sunTime), time.Date(1900, 1, 1, 0, 0, 0, 2, sunTime),
		time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC), time.Date(10000, 1, 1, 0, 0, 0, 6, time.FixedZone("", 3600)), time.Date(294276, 12, 31, 0, 0, 0, 0, time.UTC),
	}
	for i, at := range want {
		if err := table.Insert(ctx, moment{fmt.Sprint(i), at}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for next := ""; ; {
		page, after, err := table.Page(ctx, readmodel.All().OrderBy("At", readmodel.Asc).Limit(1).After(next))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page {
			got = append(got, m.ID)
		}
		if next = after; next == "" {
			break
		}
	}
	if walk := strings.Join(got, ""); walk != "0123456" {
		t.Errorf("the pages are %s", walk)
	}
}
