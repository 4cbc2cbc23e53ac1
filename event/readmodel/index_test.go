package readmodel_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/readmodel"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/kv"
)

var manyIndexes = []readmodel.Index{
	{Fields: []string{"Name", "Count"}}, {Fields: []string{"Count"}}, {Fields: []string{"Price", "Name"}}, {Fields: []string{"Open", "At"}},
	{Fields: []string{"Home.City"}}, {Fields: []string{"Size"}}, {Fields: []string{"At", "ID"}, Unique: true}, {Fields: []string{"Home.City", "ID"}, Unique: true},
}

func indexedTable(t testing.TB, log mainstem.Log, name string, indexes ...readmodel.Index) *readmodel.Table[row] {
	t.Helper()
	table, err := readmodel.Open(log, name, &readmodel.Options[row]{Key: func(r row) string { return r.ID }, Indexes: indexes})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

var (
	someNames  = rapid.SampledFrom([]string{"", "a", "ab", "ab%", "b\x00", "\xff", "\ufffd", "日本"})
	somePrices = rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1.5, -3, math.Inf(1), math.NaN(), 1 << 60})
	someTimes  = rapid.Custom(func(t *rapid.T) time.Time { return time.Unix(rapid.Int64Range(-2, 2).Draw(t, "seconds"), 5) })
	someRows   = rapid.Custom(func(t *rapid.T) row {
		r := row{
			ID: rapid.SampledFrom([]string{"k1", "k2", "k3", "k\x00", "k\xff", "l", "m"}).Draw(t, "key"), Name: someNames.Draw(t, "name"),
			Count: rapid.IntRange(-2, 2).Draw(t, "count"), Size: uint8(rapid.IntRange(0, 2).Draw(t, "size")), Open: rapid.Bool().Draw(t, "open"), At: someTimes.Draw(t, "at"),
		}
		if rapid.Bool().Draw(t, "has a price") {
			r.Price = ptr(rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 1.5, -3, 1 << 60}).Draw(t, "price")) // JSON has no others
		}
		if rapid.Bool().Draw(t, "has a home") {
			r.Home = &address{someNames.Draw(t, "city")}
		}
		return r
	})
)

// operand returns a value for a field.
func operand(t *rapid.T, field string) any {
	switch field {
	case "Count":
		return rapid.IntRange(-2, 2).Draw(t, "operand")
	case "Size":
		return rapid.IntRange(0, 2).Draw(t, "operand")
	case "Price":
		return somePrices.Draw(t, "operand")
	case "Open":
		return rapid.Bool().Draw(t, "operand")
	case "At":
		return someTimes.Draw(t, "operand")
	}
	return someNames.Draw(t, "operand")
}

var anyCondition = rapid.Custom(func(t *rapid.T) func(*readmodel.Query) *readmodel.Query {
	field := rapid.SampledFrom([]string{"Name", "Count", "Price", "Open", "At", "Home.City", "Size", "ID"}).Draw(t, "field")
	ops := []readmodel.Op{readmodel.Eq, readmodel.Eq, readmodel.Ne, readmodel.In, readmodel.NotIn, readmodel.IsNull, readmodel.NotNull}
	if field != "Open" {
		ops = append(ops, readmodel.Gt, readmodel.Ge, readmodel.Lt, readmodel.Le, readmodel.Between)
	}
	if field == "Name" || field == "Home.City" || field == "ID" {
		ops = append(ops, readmodel.Like, readmodel.Contains)
	}
	op := rapid.SampledFrom(ops).Draw(t, "op")
	var values []any
	switch op {
	case readmodel.IsNull, readmodel.NotNull:
	case readmodel.Between:
		values = []any{operand(t, field), operand(t, field)}
	case readmodel.In, readmodel.NotIn:
		for range rapid.IntRange(0, 3).Draw(t, "values") {
			values = append(values, operand(t, field))
		}
	case readmodel.Like:
		values = []any{rapid.SampledFrom([]string{"a%", "a_%", "%b", `ab\%`, "\xff%", "日%", "_", ""}).Draw(t, "pattern")}
	default:
		values = []any{operand(t, field)}
	}
	return func(q *readmodel.Query) *readmodel.Query { return q.And(field, op, values...) }
})

// anyQuery is a query without limit, offset and cursor.
var anyQuery = rapid.Custom(func(t *rapid.T) *readmodel.Query {
	q := readmodel.All()
	for range rapid.IntRange(0, 3).Draw(t, "conditions") {
		q = anyCondition.Draw(t, "condition")(q)
	}
	if rapid.IntRange(0, 5).Draw(t, "or") == 0 {
		q = q.Or("Count", readmodel.Eq, 1)
	}
	for range rapid.IntRange(0, 2).Draw(t, "orders") {
		q = q.OrderBy(rapid.SampledFrom([]string{"Name", "Count", "Price", "At", "Home.City", "ID"}).Draw(t, "order"),
			rapid.SampledFrom([]readmodel.Direction{readmodel.Asc, readmodel.Desc}).Draw(t, "direction"))
	}
	return q
})

// A query returns the same entries by an index as by reading the whole table.
func TestRandomQueriesBesideTheWalk(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		ctx, round, used := t.Context(), 0, 0
		enough, failing := testengines.Rounds(log, 100), false
		rapid.Check(t, func(rt *rapid.T) {
			if round++; round > enough && !failing { // a failure is made smaller on any engine
				return
			}
			defer func() { failing = failing || rt.Failed() }()
			indexed := indexedTable(t, log, fmt.Sprintf("indexed/t%d", round), manyIndexes...)
			plain := indexedTable(t, log, fmt.Sprintf("plain/t%d", round))
			for _, r := range rapid.SliceOfN(someRows, 1, 12).Draw(rt, "rows") {
				if err := errors.Join(indexed.Upsert(ctx, r), plain.Upsert(ctx, r)); err != nil {
					rt.Fatal(err)
				}
			}
			for range 4 {
				q := anyQuery.Draw(rt, "query")
				limit := rapid.IntRange(0, 4).Draw(rt, "limit")
				offset := rapid.SampledFrom([]int{0, 0, 1}).Draw(rt, "offset")
				q.Limit(limit).Offset(offset)
				how, err := indexed.Explain(q)
				if err != nil {
					rt.Fatal(err)
				}
				if strings.Contains(how, " index ") && !strings.Contains(how, "no index") {
					used++
				}
				same(rt, how, indexed, plain, q)
				if limit > 0 {
					pages(rt, how, indexed, plain, q.Offset(0))
				}
			}
		})
		if used == 0 {
			t.Error("no query used an index")
		}
	})
}

func same(t *rapid.T, how string, indexed, plain *readmodel.Table[row], q *readmodel.Query) {
	ctx := t.Context()
	got, err := indexed.Find(ctx, q)
	want, err2 := plain.Find(ctx, q)
	if err := errors.Join(err, err2); err != nil || ids(got) != ids(want) {
		t.Fatalf("%+v (%s): %q, want %q (%v)", q, how, ids(got), ids(want), err)
	}
	n, err := indexed.Count(ctx, q)
	m, err2 := plain.Count(ctx, q)
	if err := errors.Join(err, err2); err != nil || n != m {
		t.Fatalf("%+v (%s): counted %d, want %d (%v)", q, how, n, m, err)
	}
}

func pages(t *rapid.T, how string, indexed, plain *readmodel.Table[row], q *readmodel.Query) {
	ctx := t.Context()
	var got [2][]string
	for i, table := range []*readmodel.Table[row]{indexed, plain} {
		for cursor := ""; ; {
			page, next, err := table.Page(ctx, q.After(cursor))
			if err != nil {
				t.Fatal(err)
			}
			got[i] = append(got[i], ids(page))
			if cursor = next; next == "" {
				break
			}
		}
	}
	if !slices.Equal(got[0], got[1]) {
		t.Fatalf("pages of %+v (%s): %q, want %q", q, how, got[0], got[1])
	}
}

func TestExplainNamesTheIndex(t *testing.T) {
	table := indexedTable(t, testengines.Memory(t), "test/rows", manyIndexes...)
	w := readmodel.Where
	for _, c := range []struct {
		q    *readmodel.Query
		want string
	}{
		{w("Name", readmodel.Eq, "x"), "reads a range of index Name_Count of table test/rows"},
		{w("Name", readmodel.Eq, "x").And("Count", readmodel.Gt, 1).OrderBy("Count", readmodel.Desc).Limit(3), "reads a range of index Name_Count of table test/rows in order, until the limit is reached"},
		{w("Count", readmodel.In, 1, 2, 2), "reads 2 ranges of index Count of table test/rows"},
		{w("Name", readmodel.Like, "x%"), "reads a range of index Name_Count of table test/rows"},
		{w("Name", readmodel.Like, "%x"), "reads all entries of table test/rows: no index fits"},
		{w("Count", readmodel.Eq, 1).Or("Name", readmodel.Eq, "x"), "reads all entries of table test/rows: no index fits"},
		{w("Home.City", readmodel.IsNull), "reads a range of index Home-City of table test/rows"},
		{readmodel.All().OrderBy("Price", readmodel.Desc).Limit(2), "reads index Price_Name of table test/rows in order, until the limit is reached"},
		{readmodel.All().OrderBy("Price", readmodel.Desc), "reads all entries of table test/rows, and sorts those that are selected in memory: no index fits"},
		{w("Count", readmodel.Gt, 1).OrderBy("Name", readmodel.Asc), "reads a range of index Count of table test/rows, and sorts those that are selected in memory"},
	} {
		if got, err := table.Explain(c.q); got != c.want || err != nil {
			t.Errorf("%+v: %q, %v; want %q", c.q, got, err, c.want)
		}
	}
}

// Queries read a whole table that had entries before it had indexes, until the indexes are built.
func TestIndexesOfATableWithEntries(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		old := newTable(t, log)
		for i := range 20 {
			if err := old.Upsert(ctx, row{ID: fmt.Sprintf("%02d", i), Count: i % 3}); err != nil {
				t.Fatal(err)
			}
		}
		table := indexedTable(t, log, "test/rows", readmodel.Index{Fields: []string{"Count"}})
		find := func(when, want string) {
			t.Helper()
			if got, err := table.Find(ctx, readmodel.Where("Count", readmodel.Eq, 2).Limit(3)); ids(got) != want || err != nil {
				t.Errorf("%s: %q, %v", when, ids(got), err)
			}
		}
		find("before anything is written", "02 05 08")
		if err := table.Upsert(ctx, row{ID: "03", Count: 2}); err != nil {
			t.Fatal(err)
		}
		find("while it is not built", "02 03 05")
		if err := table.Build(ctx); err != nil {
			t.Fatal(err)
		}
		find("when it is built", "02 03 05")
		if err := errors.Join(table.Delete(ctx, "02"), old.Upsert(ctx, row{ID: "x"})); !errors.Is(err, mainstem.ErrUnavailable) {
			t.Errorf("a program without the index: %v", err)
		}
		find("after a deletion", "03 05 08")
		if n, err := table.DeleteMany(ctx, readmodel.Where("Count", readmodel.Eq, 2)); n != 6 || err != nil {
			t.Errorf("deleted %d, %v", n, err)
		}
		find("after all were deleted", "")
		if err := table.Clear(ctx); err != nil {
			t.Error(err)
		}
	})
}

// An operand that is too long for the key of an index gives the same answer as without the index.
func TestLongOperands(t *testing.T) {
	ctx := t.Context()
	log := testengines.Memory(t)
	indexed, plain := indexedTable(t, log, "test/indexed", manyIndexes...), indexedTable(t, log, "test/plain")
	for _, table := range []*readmodel.Table[row]{indexed, plain} {
		for i, name := range []string{"a", "m", "z", "zz"} {
			if err := table.Insert(ctx, row{ID: name, Name: name, Count: i, Home: &address{name}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	w, long := readmodel.Where, strings.Repeat("z", 5000)
	for _, q := range []func() *readmodel.Query{
		func() *readmodel.Query { return w("Name", readmodel.Eq, long) },
		func() *readmodel.Query { return w("Name", readmodel.Lt, long).OrderBy("Name", readmodel.Desc).Limit(3) },
		func() *readmodel.Query { return w("Name", readmodel.In, "m", long) },
		func() *readmodel.Query { return w("Name", readmodel.Between, "m", long) },
		func() *readmodel.Query { return w("Name", readmodel.Like, long+"%") },
		func() *readmodel.Query { return w("Name", readmodel.Gt, strings.Repeat("b\x00", 1500)) },
		func() *readmodel.Query {
			return w("Home.City", readmodel.Ge, long[:2500]).And("ID", readmodel.Le, long[:2500])
		},
		func() *readmodel.Query {
			return w("Home.City", readmodel.Eq, "z").And("ID", readmodel.Le, long[:4090])
		},
	} {
		got, err1 := indexed.Find(ctx, q())
		want, err2 := plain.Find(ctx, q())
		if err1 != nil || err2 != nil || ids(got) != ids(want) {
			t.Errorf("with the index %q, %v; without %q, %v", ids(got), err1, ids(want), err2)
		}
	}
}

func TestUniqueFields(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		ctx := t.Context()
		table := indexedTable(t, log, "test/rows", readmodel.Index{Fields: []string{"Name"}, Unique: true}, readmodel.Index{Fields: []string{"Price"}, Unique: true})
		err := errors.Join(table.Insert(ctx, row{ID: "1", Name: "a"}), table.Insert(ctx, row{ID: "2", Name: "b"})) // no prices
		if err != nil {
			t.Fatal(err)
		}
		var u *kv.UniqueError
		for what, err := range map[string]error{
			"insert": table.Insert(ctx, row{ID: "3", Name: "a"}),
			"update": table.Update(ctx, row{ID: "2", Name: "a"}),
			"batch":  table.UpsertTo(ctx, mainstem.NewBatch(), row{ID: "3", Name: "a"}),
		} {
			if !errors.As(err, &u) || u.HeldBy != "1" || u.Index != "Name" {
				t.Errorf("%s: %v", what, err)
			}
		}
		got, err := table.Find(ctx, readmodel.Where("Price", readmodel.IsNull))
		if ids(got) != "1 2" || err != nil {
			t.Errorf("without a price: %q, %v", ids(got), err)
		}
	})
}

func TestIndexesThatCannotBe(t *testing.T) {
	log := testengines.Memory(t)
	for _, i := range []readmodel.Index{{}, {Fields: []string{"Missing"}}, {Fields: []string{"Tags"}}, {Fields: []string{"Any"}}} {
		_, err := readmodel.Open(log, "x", &readmodel.Options[row]{Key: func(row) string { return "" }, Indexes: []readmodel.Index{i}})
		if !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%+v: %v", i, err)
		}
	}
}
