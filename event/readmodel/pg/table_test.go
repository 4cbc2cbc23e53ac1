package readmodelpg_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/event/projection"
	"github.com/mainstemdev/mainstem/event/readmodel"
	readmodelpg "github.com/mainstemdev/mainstem/event/readmodel/pg"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
	"github.com/mainstemdev/mainstem/internal/testpostgres"
)

type status string

type cents int64

// named has fields of named types, and asks for types of columns.
type named struct {
	ID     [16]byte          `sql:"the \"id\",pk"`
	State  status            `sql:"state'; DROP TABLE x; --,index,type=varchar(10)"`
	Total  cents             `sql:",type=numeric(12)"`
	Ref    string            `sql:",type=uuid,unique"`
	Labels map[string]string `sql:",type=json"`
	Doc    json.RawMessage
	Bits   []bool
	Days   []time.Time
	Plain  int32  `sql:",nullable"`
	Big    uint64 `sql:",type=bigint"`
	Pair   *named `sql:"-"`
}

func sample(i byte) named {
	ref := "01890a5d-ac96-774b-bcce-b302099a80" + string([]byte{'0' + i/10, '0' + i%10})
	return named{
		ID: [16]byte{15: i}, State: "open", Total: cents(i), Ref: ref, Labels: map[string]string{"a": "b"}, Doc: json.RawMessage(`{"a": 1}`),
		Bits: []bool{true}, Days: []time.Time{time.Unix(int64(i), 1000).UTC()}, Plain: int32(i), Big: uint64(i),
	}
}

func TestTypes(t *testing.T) {
	db, pool := newDB(t)
	for _, name := range []string{`Odd "schema".a 'table'; --`, "things"} {
		table := open[named](t, db, name)
		ctx := t.Context()
		for i := range byte(3) {
			if err := table.Insert(ctx, sample(i)); err != nil {
				t.Fatal(err)
			}
		}
		got, err := table.Find(ctx, readmodel.Where("Total", readmodel.In, 1, 2).And("Ref", readmodel.Ge, strings.ToUpper(sample(1).Ref)).And("State", readmodel.Like, "op%").
			And("Ref", readmodel.Like, "01890a5d%").OrderBy("Ref", readmodel.Desc))
		if d := cmp.Diff([]named{sample(2), sample(1)}, got); d != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, d)
		}
		one, err := table.Get(ctx, "00000000-0000-0000-0000-000000000001")
		if d := cmp.Diff(sample(1), one); d != "" || err != nil || table.Key(one) != "00000000-0000-0000-0000-000000000001" {
			t.Errorf("%s: %v\n%s", name, err, d)
		}
		if plan, err := table.Explain(ctx, readmodel.Where("State", readmodel.Eq, "open")); err != nil || plan == "" {
			t.Errorf("plan %q, %v", plan, err)
		}
		again := sample(9)
		again.Ref = sample(1).Ref
		if err := table.Insert(ctx, again); !errors.Is(err, mainstem.ErrExists) || !strings.Contains(err.Error(), "things_ref_key") && name == "things" {
			t.Errorf("a second one in a unique index: %v", err)
		}
	}
	execute(t, pool, "UPDATE things SET plain = NULL")
	table := open[named](t, db, "things")
	if n, err := table.Count(t.Context(), readmodel.Where("Plain", readmodel.IsNull)); n != 3 || err != nil {
		t.Errorf("%d are null, %v", n, err)
	}
	if v, err := table.FindOne(t.Context(), readmodel.Where("Plain", readmodel.IsNull)); v.Plain != 0 || err != nil {
		t.Errorf("%+v, %v", v, err)
	}
}

// Numbers are keys too, and are ordered as numbers.
func TestNumbersAsKeys(t *testing.T) {
	type entry struct {
		N *struct{} `sql:"-"`
		K uint64    `sql:",pk"`
	}
	db, _ := newDB(t)
	table, ctx := open[*entry](t, db, "entries"), t.Context()
	for _, k := range []uint64{10, 9, math.MaxUint64} {
		if err := errors.Join(table.Upsert(ctx, &entry{K: k}), table.Upsert(ctx, &entry{K: k})); err != nil {
			t.Fatal(err)
		}
	}
	got, err := table.GetMany(ctx, "18446744073709551615", "7", "9")
	if err != nil || len(got) != 2 || got[0].K != math.MaxUint64 {
		t.Errorf("%v, %v", got, err)
	}
	page, next, err := table.Page(ctx, readmodel.All().Limit(2))
	if err != nil || len(page) != 2 || page[0].K != 9 || page[1].K != 10 {
		t.Errorf("%v, %v", page, err)
	}
	if page, _, err = table.Page(ctx, readmodel.All().After(next)); err != nil || len(page) != 1 || page[0].K != math.MaxUint64 {
		t.Errorf("%v, %v", page, err)
	}
	if _, err := table.Get(ctx, "x"); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("a key that is no number: %v", err)
	}
	if err := table.Insert(ctx, nil); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("no entry: %v", err)
	}
}

// An unsigned number in a column of a smaller type than the default is found by its index.
func TestIndexOfUnsignedNumbers(t *testing.T) {
	type entry struct {
		K uint64 `sql:",pk,type=bigint"`
		N uint64 `sql:",type=integer,index"`
		D uint64 `sql:",index"`
	}
	config, err := pgxpool.ParseConfig(testpostgres.FastDB(t))
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["enable_seqscan"] = "off"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	table, ctx := open[entry](t, dbOf(t, pool, nil), "entries"), t.Context()
	want := entry{1, 2, math.MaxUint64}
	if err := table.Insert(ctx, want); err != nil {
		t.Fatal(err)
	}
	for _, q := range []func() *readmodel.Query{
		func() *readmodel.Query { return readmodel.Where("K", readmodel.Eq, 1) },
		func() *readmodel.Query { return readmodel.Where("N", readmodel.In, 2, 3) },
		func() *readmodel.Query { return readmodel.Where("D", readmodel.Gt, uint64(math.MaxInt64)) },
	} {
		if plan, err := table.Explain(ctx, q()); err != nil || !strings.Contains(plan, "Index Cond") {
			t.Errorf("%v\n%s", err, plan)
		}
		if got, err := table.FindOne(ctx, q()); err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
	}
	_, err1 := table.Get(ctx, "9223372036854775808")
	err2 := table.Upsert(ctx, entry{N: math.MaxUint64})
	err3 := table.Upsert(ctx, entry{N: math.MaxInt64})
	for _, err := range []error{err1, err2, err3} {
		if !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("a number that does not fit: %v, want Invalid", err)
		}
	}
}

// A whole number is read back from a column that has digits after the point.
func TestWholeNumbersInNumeric(t *testing.T) {
	type entry struct {
		K uint64 `sql:",pk,type=numeric(20,2)"`
		N int64  `sql:",type=numeric(20,2)"`
	}
	db, pool := newDB(t)
	table, ctx := open[entry](t, db, "entries"), t.Context()
	want := []entry{{1, -500}, {20, 0}, {300, 42}}
	for _, e := range want {
		if err := table.Insert(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	got, err := table.Find(ctx, readmodel.All())
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	if one, err := table.Get(ctx, table.Key(got[1])); one != want[1] || err != nil {
		t.Errorf("%+v, %v", one, err)
	}
	execute(t, pool, "UPDATE entries SET n = 0.5 WHERE k = 1")
	if _, err := table.Get(ctx, "1"); !errors.Is(err, mainstem.ErrCorrupt) {
		t.Errorf("a fraction: %v", err)
	}
}

// A value that another program wrote and a field cannot hold is Corrupt, and ends a projection that
// reads it.
func TestValuesThatFieldsCannotHold(t *testing.T) {
	db, pool := newDB(t)
	table, ctx := open[thing](t, db, "things"), t.Context()
	for column, sql := range map[string]string{"made": "UPDATE things SET made = 'infinity'", "tags": "UPDATE things SET tags = ARRAY['a', NULL]"} {
		if err := table.Upsert(ctx, thing{ID: "a"}); err != nil {
			t.Fatal(err)
		}
		execute(t, pool, sql)
		_, err1 := table.Get(ctx, "a")
		_, err2 := table.Find(ctx, readmodel.All())
		for _, err := range []error{err1, err2} {
			if !errors.Is(err, mainstem.ErrCorrupt) || !strings.Contains(err.Error(), "column "+column+" holds") {
				t.Errorf("%s: %v, want Corrupt", sql, err)
			}
		}
		l := newLedger(t, testengines.Memory(t), pool)
		l.pay(t, 1)
		p, err := projection.New(column, 1, event.Filter{}, projection.On(func(ctx context.Context, tx *projection.Tx, _ paid, _ event.Recorded) error {
			_, err := readmodelpg.Get(ctx, tx, table, "a")
			return err
		}))
		if err != nil {
			t.Fatal(err)
		}
		e, err := projection.Open(l.store, l.types, &projection.Options{Logger: discard, RestartAfter: -1})
		if err == nil {
			err = e.Register(p.WithTarget(l.db), &projection.Async{Attempts: 1})
		}
		if err := errors.Join(err, e.Start(ctx)); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "the projection to be faulted", func() bool {
			s, err := e.Status(ctx, column)
			return err == nil && s.State == projection.Faulted && errors.Is(s.Err, mainstem.ErrCorrupt)
		})
		stop(t, e)
	}
}

// Values that PostgreSQL cannot hold are refused, before or by the server, and are Invalid.
func TestRefusedValues(t *testing.T) {
	db, _ := newDB(t)
	things, names, ctx := open[thing](t, db, "things"), open[named](t, db, "names"), t.Context()
	with := func(change func(*named)) named {
		v := sample(1)
		change(&v)
		return v
	}
	for what, err := range map[string]error{
		"NUL in a text":         things.Insert(ctx, thing{ID: "a", Name: "\x00"}),
		"no UTF-8 in a list":    things.Insert(ctx, thing{ID: "a", Tags: []string{"\xff"}}),
		"no key":                things.Upsert(ctx, thing{}),
		"NaN":                   things.Update(ctx, thing{ID: "a", Price: ptr(math.NaN())}),
		"a year too far":        things.Insert(ctx, thing{ID: "a", stamps: stamps{Made: time.Date(300000, 1, 1, 0, 0, 0, 0, time.UTC)}}),
		"a long key":            things.Insert(ctx, thing{ID: strings.Repeat("x", mainstem.MaxKey+1)}),
		"a long text":           names.Insert(ctx, with(func(v *named) { v.State = "much too long" })),
		"no UUID":               names.Insert(ctx, with(func(v *named) { v.Ref = "x" })),
		"a number too large":    names.Insert(ctx, with(func(v *named) { v.Big = math.MaxUint64 })),
		"no JSON":               names.Insert(ctx, with(func(v *named) { v.Doc = json.RawMessage("{") })),
		"NUL in JSON":           names.Insert(ctx, with(func(v *named) { v.Doc = json.RawMessage(`"\u0000"`) })),
		"a number of 13 digits": names.Insert(ctx, with(func(v *named) { v.Total = 1e12 })),
	} {
		if !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%s: %v, want Invalid", what, err)
		}
	}
	for _, q := range []*readmodel.Query{
		readmodel.Where("Name", readmodel.Eq, "\x00"), readmodel.Where("Home.City", readmodel.Eq, "Bern"), readmodel.Where("Nothing", readmodel.Eq, 1),
		readmodel.Where("Made", readmodel.Gt, time.Date(300000, 1, 1, 0, 0, 0, 0, time.UTC)),
	} {
		var wrong *readmodel.FieldError
		_, err1 := things.Find(ctx, q)
		_, err2 := things.Count(ctx, q)
		_, err3 := things.DeleteMany(ctx, q)
		_, err4 := things.Explain(ctx, q)
		for _, err := range []error{err1, err2, err3, err4} {
			if !errors.As(err, &wrong) || !errors.Is(err, mainstem.ErrInvalid) {
				t.Errorf("%+v: %v, want a FieldError", q, err)
			}
		}
	}
	for _, q := range []*readmodel.Query{
		readmodel.Where("Ref", readmodel.Eq, "x"), readmodel.Where("Ref", readmodel.Contains, "x"), readmodel.Where("ID", readmodel.Contains, 1),
		readmodel.Where("Pair", readmodel.IsNull), readmodel.Where("Labels", readmodel.Eq, "x"),
	} {
		var wrong *readmodel.FieldError
		if _, err := names.Find(ctx, q); !errors.As(err, &wrong) {
			t.Errorf("%+v: %v, want a FieldError", q, err)
		}
	}
	for _, q := range []*readmodel.Query{readmodel.All().Limit(-1), readmodel.All().After("?"), readmodel.All().OrderBy("ID", 0).After("e30")} {
		if _, err := things.Find(ctx, q); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%+v: %v, want Invalid", q, err)
		}
	}
}

// Times of the first and the last year are held, and a walk by pages passes them. Others are refused
// with the years that are not.
func TestFirstAndLastTimes(t *testing.T) {
	type moment struct {
		ID string `sql:",pk"`
		At time.Time
	}
	db, _ := newDB(t)
	table, ctx := open[moment](t, db, "moments"), t.Context()
	want := []moment{
		{"a", time.Date(-4712, 1, 1, 0, 0, 0, 0, time.UTC)}, {"b", time.Date(2026, 1, 1, 0, 0, 0, 1000, time.UTC)}, {"c", time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
		{"d", time.Date(294276, 12, 31, 23, 59, 59, 999999000, time.UTC)},
	}
	for _, m := range want {
		if err := table.Insert(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	var got []moment
	for next := ""; ; {
		page, after, err := table.Page(ctx, readmodel.All().OrderBy("At", readmodel.Asc).Limit(1).After(next))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, page...)
		if next = after; next == "" {
			break
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, at := range []time.Time{want[0].At.Add(-1), want[3].At.Add(time.Microsecond)} {
		if err := table.Insert(ctx, moment{"x", at}); !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), "from -4712 to 294276") {
			t.Errorf("%v: %v", at, err)
		}
	}
}

// A table that is there gets the columns and indexes that it lacks, and keeps its rows.
func TestExtend(t *testing.T) {
	type one struct {
		ID string `sql:",pk"`
	}
	type two struct {
		ID    string `sql:",pk"`
		Name  string `sql:",index"`
		N     int64
		Big   uint64
		F     float64
		B     bool
		At    time.Time `sql:",index=at_n"`
		U     [16]byte
		J     map[string]int
		L     []string
		R     []byte
		Maybe *int `sql:",unique"`
	}
	db, pool := newDB(t)
	ctx := t.Context()
	if err := open[one](t, db, "x.y").Insert(ctx, one{"a"}); err != nil {
		t.Fatal(err)
	}
	if _, err := readmodelpg.Open[two](ctx, dbOf(t, pool, &readmodelpg.Options{MustExist: true}), "x.y"); !errors.Is(err, mainstem.ErrNotFound) || !strings.Contains(err.Error(), "ADD COLUMN") {
		t.Errorf("without the right to change: %v", err)
	}
	var opens sync.WaitGroup
	for range 4 { // at the same time
		opens.Go(func() {
			if _, err := readmodelpg.Open[two](ctx, db, "x.y"); err != nil {
				t.Error(err)
			}
		})
	}
	opens.Wait()
	table, err := readmodelpg.Open[two](ctx, dbOf(t, pool, &readmodelpg.Options{MustExist: true}), "x.y")
	if err != nil {
		t.Fatal(err)
	}
	got, err := table.Find(ctx, readmodel.All())
	if d := cmp.Diff([]two{{ID: "a"}}, got); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	// As if it had been made so.
	open[two](t, db, "x.z")
	const definition = "SELECT string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod), attnotnull, atthasdef, attcollation), E'\n' ORDER BY attname) FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0"
	if d := cmp.Diff(value[string](t, pool, definition, "x.z"), value[string](t, pool, definition, "x.y")); d != "" {
		t.Errorf("a table that was extended is not one that was made:\n%s", d)
	}
	const indexes = "SELECT string_agg(replace(indexdef, 'x.y', 'x.z'), E'\n' ORDER BY replace(indexdef, '.y', '.z')) FROM pg_indexes WHERE schemaname = 'x' AND tablename = $1"
	if d := cmp.Diff(strings.ReplaceAll(value[string](t, pool, indexes, "z"), "z_", "y_"), value[string](t, pool, indexes, "y")); d != "" {
		t.Errorf("indexes:\n%s", d)
	}
}

// A unique index does not become one of fewer columns.
func TestUniqueIndexOfMoreColumns(t *testing.T) {
	type before struct {
		ID string `sql:",pk"`
		A  string `sql:",unique=x"`
		B  string `sql:",unique=x"`
	}
	type after struct {
		ID string `sql:",pk"`
		A  string `sql:",unique=x"`
		B  string
	}
	db, _ := newDB(t)
	open[before](t, db, "t")
	if _, err := readmodelpg.Open[after](t.Context(), db, "t"); !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), `index "t_x_key" is another one, of t (a, b)`) {
		t.Errorf("%v, want a refusal", err)
	}
}

// A table that does not fit the struct is refused, with a hint, and is not changed.
func TestTablesOfOthers(t *testing.T) {
	type entry struct {
		ID   string `sql:",pk"`
		N    int
		Name string `sql:",index"`
	}
	db, pool := newDB(t)
	for create, want := range map[string]string{
		`CREATE TABLE t (id text PRIMARY KEY, n text NOT NULL)`:                                         `column "n" has the type text, and field N of readmodelpg_test.entry takes bigint`,
		`CREATE TABLE t (id text PRIMARY KEY, n bigint)`:                                                `column "n" may be NULL`,
		`CREATE TABLE t (id text PRIMARY KEY, n bigint NOT NULL GENERATED ALWAYS AS (1) STORED)`:        `is generated`,
		`CREATE TABLE t (id text NOT NULL, n bigint NOT NULL)`:                                          `column "id" is not its primary key`,
		`CREATE TABLE t (id text PRIMARY KEY, n bigint NOT NULL, more text NOT NULL)`:                   `column "more" is NOT NULL, has no default`,
		`CREATE VIEW t AS SELECT 1`:                                                                     `it is not a table`,
		`CREATE TABLE t (id text PRIMARY KEY, n bigint NOT NULL); CREATE INDEX t_name_idx ON t (n, id)`: `index "t_name_idx" is another one, of t (n, id)`,
	} {
		execute(t, pool, create, pgx.QueryExecModeSimpleProtocol)
		if _, err := readmodelpg.Open[entry](t.Context(), db, "t"); !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", create, err, want)
		}
		if n := value[int](t, pool, "SELECT count(*) FROM pg_attribute WHERE attrelid = 't'::regclass AND attname = 'name'"); n != 0 {
			t.Errorf("%s: the table was changed", create)
		}
		execute(t, pool, strings.Join([]string{"DROP", strings.Fields(create)[1], "t"}, " "))
	}
	// One with more in it that does no harm is taken.
	execute(t, pool, `CREATE TABLE t (more text, serial int GENERATED ALWAYS AS IDENTITY, id text UNIQUE NOT NULL, n bigint NOT NULL)`)
	table := open[entry](t, db, "t")
	if err := errors.Join(table.Insert(t.Context(), entry{"a", 1, ""}), table.Upsert(t.Context(), entry{"a", 2, ""}), table.Update(t.Context(), entry{"a", 3, ""})); err != nil {
		t.Error(err)
	}
	execute(t, pool, "DROP TABLE t")
	if _, err := table.Get(t.Context(), "a"); !errors.Is(err, mainstem.ErrUnavailable) || !strings.Contains(err.Error(), "open it again") {
		t.Errorf("a table that is gone: %v", err)
	}
}

func TestWrongTags(t *testing.T) {
	db, _ := newDB(t)
	wrong := func(want string, err error) {
		t.Helper()
		if !errors.Is(err, mainstem.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	ctx := t.Context()
	wrong("no field of", second(readmodelpg.Open[struct{ ID string }](ctx, db, "t")))
	wrong("is not a struct", second(readmodelpg.Open[int](ctx, db, "t")))
	wrong("a second key", second(readmodelpg.Open[struct {
		A string `sql:",pk"`
		B string `sql:",pk"`
	}](ctx, db, "t")))
	wrong("cannot be a key", second(readmodelpg.Open[struct {
		A float64 `sql:",pk"`
	}](ctx, db, "t")))
	wrong("cannot be nullable", second(readmodelpg.Open[struct {
		A *string `sql:",pk"`
	}](ctx, db, "t")))
	wrong("want pk, index", second(readmodelpg.Open[struct {
		A string `sql:",primary"`
	}](ctx, db, "t")))
	wrong("does not fit", second(readmodelpg.Open[struct {
		A string `sql:",pk,type=bigint"`
	}](ctx, db, "t")))
	wrong("not one of those", second(readmodelpg.Open[struct {
		A string `sql:",pk,type=text; DROP TABLE x"`
	}](ctx, db, "t")))
	wrong("takes no (3)", second(readmodelpg.Open[struct {
		A string `sql:",pk,type=text(3)"`
	}](ctx, db, "t")))
	wrong("two columns", second(readmodelpg.Open[struct {
		A string `sql:"a,pk"`
		B string `sql:"a"`
	}](ctx, db, "t")))
	wrong("pointer to a list", second(readmodelpg.Open[struct {
		A string `sql:",pk"`
		B *[]byte
	}](ctx, db, "t")))
	wrong("not for another", second(readmodelpg.Open[struct {
		A string `sql:",pk,index=x"`
		B string `sql:",unique=x"`
	}](ctx, db, "t")))
	wrong("1 to 63 bytes", second(readmodelpg.Open[thing](ctx, db, strings.Repeat("x", 64))))
	wrong("1 to 63 bytes", second(readmodelpg.Open[thing](ctx, db, "a.")))
	wrong("the database is nil", second(readmodelpg.Open[thing](ctx, nil, "a")))
	wrong("the pool is nil", second(readmodelpg.New(nil, nil)))
	if !t.Failed() {
		open[thing](t, db, strings.Repeat("x", 63)) // names of indexes are shortened
	}
}

func second[T any](_ T, err error) error { return err }

// In a transaction of the program's own, a table is a part of it.
func TestIn(t *testing.T) {
	db, pool := newDB(t)
	table, ctx := open[total](t, db, "sums"), t.Context()
	for _, commit := range []bool{false, true} {
		tx, err := pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		in := table.In(tx)
		if err := errors.Join(in.Insert(ctx, total{"a", 1, 1}), in.Upsert(ctx, total{"b", 2, 1}), in.Update(ctx, total{"b", 3, 1}), in.Delete(ctx, "a")); err != nil {
			t.Fatal(err)
		}
		if got, err := in.Find(ctx, readmodel.All()); err != nil || len(got) != 1 || got[0].Cents != 3 {
			t.Errorf("within: %v, %v", got, err)
		}
		if _, err := table.Get(ctx, "b"); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("from outside: %v", err)
		}
		end, want := tx.Rollback, 0
		if commit {
			end, want = tx.Commit, 1
		}
		if err := end(ctx); err != nil {
			t.Fatal(err)
		}
		if n, err := table.Count(ctx, readmodel.All()); n != want || err != nil {
			t.Errorf("after commit %v: %d, %v", commit, n, err)
		}
	}
}

// A call that its context ends returns an error that has the outcome of the write.
func TestCanceled(t *testing.T) {
	db, pool := newDB(t)
	table := open[total](t, db, "sums")
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if err := table.In(tx).Insert(t.Context(), total{"a", 1, 1}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- table.Insert(ctx, total{"a", 2, 1}) }()
	testkit.Eventually(t, "the insert waits for tx", func() bool {
		return value[int](t, pool, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 1
	})
	cancel()
	if err := <-done; !errors.Is(err, mainstem.ErrCanceled) || !errors.Is(err, mainstem.ErrUnknownOutcome) {
		t.Errorf("%v, want Canceled and unknown", err)
	}
}
