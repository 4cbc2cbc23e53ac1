package readmodelpg_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event/readmodel"
	readmodelpg "github.com/mainstemdev/mainstem/event/readmodel/pg"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

type place struct{ City string }

type stamps struct {
	Made time.Time
	Seen *time.Time `sql:",index"`
}

// thing has a field of every type.
type thing struct {
	ID    string  `sql:"id,pk"`
	Name  string  `sql:",index"`
	Note  *string `sql:"the note"`
	Count int     `sql:",index=count_size"`
	Small *int8   `sql:",index"`
	Size  uint8   `sql:",index=count_size"`
	Big   uint64
	Price *float64 `sql:"Price \"net\""`
	Rate  float32
	Open  bool
	Flag  *bool
	stamps
	Tags []string
	Nums []int16
	Reds []float64
	Raw  []byte
	Home *place
}

// asked is the common interface of both tables.
type asked interface {
	Get(ctx context.Context, key string) (thing, error)
	GetMany(ctx context.Context, keys ...string) ([]thing, error)
	Find(ctx context.Context, q *readmodel.Query) ([]thing, error)
	FindOne(ctx context.Context, q *readmodel.Query) (thing, error)
	Count(ctx context.Context, q *readmodel.Query) (int, error)
	Page(ctx context.Context, q *readmodel.Query) ([]thing, string, error)
	Insert(ctx context.Context, v thing) error
	Update(ctx context.Context, v thing) error
	Upsert(ctx context.Context, v thing) error
	Delete(ctx context.Context, key string) error
	DeleteMany(ctx context.Context, q *readmodel.Query) (int, error)
	Clear(ctx context.Context) error
}

var (
	_ asked = (*readmodel.Table[thing])(nil)
	_ asked = (*readmodelpg.Table[thing])(nil)
)

var (
	keys  = []string{"a", "b", "B", "ä", "a%", "key 6", "日本", "z"}
	texts = []string{"", "Ada", "ada", "Größe", "100%", `back\slash`, "under_score", "日本", "😀", "%", "_", `\`}
	noon  = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	times = []time.Time{{}, noon, noon.Add(time.Microsecond), noon.Add(time.Hour), time.Date(-100, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
)

// maybe draws a pointer, or nil.
func maybe[T any](t *rapid.T, name string, of []T) *T {
	if rapid.IntRange(0, 2).Draw(t, name+" is nil") == 0 {
		return nil
	}
	return ptr(rapid.SampledFrom(of).Draw(t, name))
}

func some[T any](t *rapid.T, name string, of []T) []T {
	if rapid.IntRange(0, 3).Draw(t, name+" is nil") == 0 {
		return nil
	}
	return append([]T{}, rapid.SliceOfN(rapid.SampledFrom(of), 0, 3).Draw(t, name)...)
}

func drawThing(t *rapid.T) thing {
	r := thing{
		ID: rapid.SampledFrom(keys).Draw(t, "id"), Name: rapid.SampledFrom(texts).Draw(t, "name"), Note: maybe(t, "note", texts),
		Count: rapid.SampledFrom([]int{-1, 0, 1, 2, math.MaxInt64, math.MinInt64}).Draw(t, "count"), Small: maybe(t, "small", []int8{-128, 0, 1, 127}),
		Size: rapid.SampledFrom([]uint8{0, 1, 255}).Draw(t, "size"), Big: rapid.SampledFrom([]uint64{0, 1, math.MaxInt64, math.MaxUint64}).Draw(t, "big"),
		Price: maybe(t, "price", []float64{-1.5, 0, 1, math.MaxFloat64}), Rate: rapid.SampledFrom([]float32{-1.25, 0, 1, 0.1}).Draw(t, "rate"),
		Open: rapid.Bool().Draw(t, "open"), Flag: maybe(t, "flag", []bool{true, false}),
		stamps: stamps{rapid.SampledFrom(times[:1:1]).Draw(t, "made"), maybe(t, "seen", times[1:4])},
		Tags:   some(t, "tags", texts), Nums: some(t, "nums", []int16{-1, 0, 1}), Reds: some(t, "reds", []float64{-1.5, 0, 1}), Raw: some(t, "raw", []byte{0, 1, 255}),
	}
	r.Made = rapid.SampledFrom(times[:4]).Draw(t, "made")
	if rapid.Bool().Draw(t, "at home") {
		r.Home = &place{"Bern"}
	}
	return r
}

var fields = []string{"ID", "Name", "Note", "Count", "Small", "Size", "Big", "Price", "Rate", "Open", "Flag", "Made", "Seen", "Tags", "Nums", "Reds", "Raw", "Home", "None", "Name.X"}

// drawValue draws a value of a query: mostly one that the field may have.
func drawValue(t *rapid.T, field string) any {
	of := map[string][]any{
		"Count": {-1, 0, int8(1), 2.0, math.MaxInt64, uint64(math.MaxInt64), uint64(math.MaxUint64), 1e300, 0.5},
		"Price": {-1.5, 0, 1, float32(1), math.NaN(), math.Inf(1), math.MaxFloat64, uint8(1)},
		"Big":   {0, 1, uint64(math.MaxUint64), math.MaxInt64, -1},
		"Open":  {true, false}, "Made": {times[0], times[1], times[2], times[3], times[4], times[5], noon.In(time.FixedZone("x", 3600))},
		"Raw": {0, 1, 255, 256},
	}
	of["Small"], of["Size"], of["Nums"] = of["Count"], append(of["Count"], 255), of["Count"]
	of["Rate"], of["Reds"] = of["Price"], of["Price"]
	of["Flag"], of["Seen"] = of["Open"], of["Made"]
	values := of[field]
	if values == nil {
		for _, s := range append(append([]string{"%da%", "Gr__e", `100\%`, `%\`, `\\`, "%%", "_"}, texts...), keys...) {
			values = append(values, s)
		}
	}
	if rapid.IntRange(0, 30).Draw(t, "wrong") == 0 {
		values = []any{nil, "x", 1, struct{}{}, true}
	}
	return rapid.SampledFrom(values).Draw(t, "value")
}

// drawQuery returns a function that makes a query, since a query is changed by its methods.
func drawQuery(t *rapid.T) func() *readmodel.Query {
	var steps []func(q *readmodel.Query)
	for range rapid.IntRange(0, 3).Draw(t, "conditions") {
		field := rapid.SampledFrom(fields).Draw(t, "field")
		o := readmodel.Op(rapid.IntRange(0, 12).Draw(t, "op"))
		n := map[readmodel.Op]int{readmodel.Between: 2, readmodel.IsNull: 0, readmodel.NotNull: 0}
		count, ok := n[o]
		switch {
		case o == readmodel.In || o == readmodel.NotIn:
			count = rapid.IntRange(0, 3).Draw(t, "values")
		case !ok:
			count = 1
		}
		var values []any
		for range count {
			values = append(values, drawValue(t, field))
		}
		if rapid.Bool().Draw(t, "or") {
			steps = append(steps, func(q *readmodel.Query) { q.Or(field, o, values...) })
		} else {
			steps = append(steps, func(q *readmodel.Query) { q.And(field, o, values...) })
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "orders") {
		field := rapid.SampledFrom(fields).Draw(t, "order")
		d := rapid.SampledFrom([]readmodel.Direction{readmodel.Asc, readmodel.Desc}).Draw(t, "direction")
		steps = append(steps, func(q *readmodel.Query) { q.OrderBy(field, d) })
	}
	limit, offset := rapid.IntRange(-1, 3).Draw(t, "limit"), rapid.IntRange(0, 2).Draw(t, "offset")
	return func() *readmodel.Query {
		q := readmodel.All().Limit(max(limit, 0)).Offset(offset)
		for _, s := range steps {
			s(q)
		}
		return q
	}
}

// kind returns the part of the result of a call in which both tables must agree.
func kind(err error) string {
	var field *readmodel.FieldError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &field):
		return "wrong field " + field.Field
	}
	return mainstem.KindOf(err).String()
}

// both compares the answers of the two tables.
func both[T any](t *rapid.T, what string, ask func(asked) (T, error), tables [2]asked) {
	want, err0 := ask(tables[0])
	got, err1 := ask(tables[1])
	if kind(err0) != kind(err1) {
		t.Fatalf("%s: in PostgreSQL %v, in the log %v", what, err1, err0)
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(thing{})); d != "" && err0 == nil {
		t.Fatalf("%s: in PostgreSQL (+) and in the log (-):\n%s", what, d)
	}
}

func written(err error) (struct{}, error) { return struct{}{}, err }

// A table in PostgreSQL gives the same answers as a table in the log, after any program of writes.
func TestModel(t *testing.T) {
	ctx := t.Context()
	db, _ := newDB(t)
	inDatabase := open[thing](t, db, "model.things")
	inLog, err := readmodel.Open(testengines.Memory(t), "test/things", &readmodel.Options[thing]{Key: func(r thing) string { return r.ID }})
	if err != nil {
		t.Fatal(err)
	}
	tables := [2]asked{inLog, inDatabase}
	rapid.Check(t, func(t *rapid.T) {
		for _, table := range tables {
			if err := table.Clear(ctx); err != nil {
				t.Fatal(err)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				v := drawThing(t)
				both(t, "insert", func(a asked) (struct{}, error) { return written(a.Insert(ctx, v)) }, tables)
			},
			"update": func(t *rapid.T) {
				v := drawThing(t)
				both(t, "update", func(a asked) (struct{}, error) { return written(a.Update(ctx, v)) }, tables)
			},
			"upsert": func(t *rapid.T) {
				v := drawThing(t)
				both(t, "upsert", func(a asked) (struct{}, error) { return written(a.Upsert(ctx, v)) }, tables)
			},
			"delete": func(t *rapid.T) {
				key := rapid.SampledFrom(keys).Draw(t, "key")
				both(t, "delete", func(a asked) (struct{}, error) { return written(a.Delete(ctx, key)) }, tables)
			},
			"delete many": func(t *rapid.T) {
				q := drawQuery(t)
				both(t, "delete many", func(a asked) (int, error) { return a.DeleteMany(ctx, q()) }, tables)
			},
			"get": func(t *rapid.T) {
				key := rapid.SampledFrom(append(keys, "")).Draw(t, "key")
				both(t, "get", func(a asked) (thing, error) { return a.Get(ctx, key) }, tables)
				some := rapid.SliceOfN(rapid.SampledFrom(keys), 0, 4).Draw(t, "keys")
				both(t, "get many", func(a asked) ([]thing, error) { return a.GetMany(ctx, some...) }, tables)
			},
			"find": func(t *rapid.T) {
				q := drawQuery(t)
				what := fmt.Sprintf("%+v", q())
				both(t, what, func(a asked) ([]thing, error) { return a.Find(ctx, q()) }, tables)
				both(t, what, func(a asked) (thing, error) { return a.FindOne(ctx, q()) }, tables)
				both(t, what, func(a asked) (int, error) { return a.Count(ctx, q()) }, tables)
			},
			"pages": func(t *rapid.T) {
				q := drawQuery(t)
				limit := rapid.IntRange(1, 3).Draw(t, "size")
				for next, n := "", 0; n == 0 || next != "" && n < 20; n++ {
					both(t, fmt.Sprintf("page %d of %+v", n, q()), func(a asked) ([]thing, error) {
						page, after, err := a.Page(ctx, q().Offset(0).Limit(limit).After(next))
						if err == nil && a == tables[1] {
							next = after
						}
						return page, err
					}, tables)
				}
			},
		})
	})
}
