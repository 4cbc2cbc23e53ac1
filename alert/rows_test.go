package alert

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert/osql"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

func TestSlowReadersHoldNobodyUp(t *testing.T) {
	s := open(t, testengines.Memory(t), Options{})
	populate(t, s, 1000)
	var open []*Rows
	for range 3 * maxReaders { // more than there are connections
		rows, err := s.Query(t.Context(), "select Serial, Tally from alerts.status order by Serial")
		if err != nil {
			t.Fatal(err)
		}
		if !rows.Next() || rows.Row().Int("Serial") != 1 {
			t.Fatal("the first row is not there")
		}
		open = append(open, rows)
	}
	exec(t, s, "update alerts.status set Tally = 99")
	exec(t, s, "delete from alerts.status where Serial > 10")
	for n, rows := range open {
		for i := 2; i <= 1000; i++ { // they show what was there
			if !rows.Next() || rows.Row().Int("Serial") != int64(i) || rows.Row().Int("Tally") != 1 {
				t.Fatalf("row %d of result %d is %v, %v", i, n, rows.Row(), rows.Err())
			}
			if n > 2 && i > 500 {
				break // the others are closed in the middle
			}
		}
		if n <= 2 && (rows.Next() || rows.Result().Affected != 1000) {
			t.Errorf("result %d goes on, or counts %d rows", n, rows.Result().Affected)
		}
		if err := errors.Join(rows.Close(), rows.Close()); err != nil {
			t.Error(err)
		}
		if rows.Next() {
			t.Error("a closed result goes on")
		}
	}
	want(t, s, "[[10 99]]", "select count(*), min(Tally) from alerts.status")
	if len(s.mirror.readers) != cap(s.mirror.readers) || len(s.mirror.cursors.open) != 0 {
		t.Errorf("%d of %d connections are free, %d results open", len(s.mirror.readers), cap(s.mirror.readers), len(s.mirror.cursors.open))
	}
}

// TestNobodyWaitsForAReader: all connections are busy with queries when another one comes, and
// then with their results, which nobody reads.
func TestNobodyWaitsForAReader(t *testing.T) {
	s := open(t, testengines.Memory(t), Options{})
	populate(t, s, 1000)
	head, err := s.Log().Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "no transaction comes that would take the results into memory", func() bool { return s.applied.upTo() >= head })
	m := s.mirror
	busy := make([]*conn, cap(m.readers))
	for i := range busy {
		busy[i] = <-m.readers
	}
	answered := make(chan error, 1)
	go func() {
		rows, err := s.Query(t.Context(), "select Serial from alerts.status")
		if err == nil {
			err = rows.Close()
		}
		answered <- err
	}()
	testkit.Eventually(t, "it waits", func() bool {
		m.cursors.Lock()
		defer m.cursors.Unlock()
		return m.cursors.waiting == 1
	})
	tab := s.table("alerts.status")
	for _, c := range busy {
		cur, err := m.openOn(t.Context(), c, []Type{osql.Incr}, "SELECT "+osql.RowID+" FROM "+tab.mirror(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer cur.close()
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestResultsReadTooSlowlyEnd(t *testing.T) {
	s := open(t, testengines.Memory(t), Options{MaxResultBytes: 100_000})
	populate(t, s, 3000)
	rows, err := s.Query(t.Context(), "select * from alerts.status")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for rows.Next() {
		if n++; n == 1 {
			exec(t, s, "update alerts.status set Tally = 2 where Serial = 1")
		}
	}
	if !errors.Is(rows.Err(), mainstem.ErrUnavailable) || n == 0 || n == 3000 {
		t.Errorf("after %d rows: %v", n, rows.Err())
	}
	if got := len(query(t, s, "select * from alerts.status")); got != 3000 { // nobody writes: no limit
		t.Errorf("%d rows", got)
	}
}

func TestQueriesEndWithTheirContext(t *testing.T) {
	s := open(t, testengines.Memory(t), Options{})
	populate(t, s, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	rows, err := s.Query(ctx, "select * from alerts.status")
	if err != nil {
		t.Fatal(err)
	}
	rows.Next()
	cancel()
	if rows.Next() || !errors.Is(rows.Close(), mainstem.ErrCanceled) {
		t.Errorf("a canceled result: %v", rows.Err())
	}
	if _, err := s.Query(ctx, "select * from alerts.status"); !errors.Is(err, mainstem.ErrCanceled) {
		t.Errorf("a canceled query: %v", err)
	}
	if _, err := s.Exec(ctx, "delete from alerts.status"); !errors.Is(err, mainstem.ErrCanceled) {
		t.Errorf("a canceled write: %v", err)
	}
	want(t, s, "[[1000]]", "select count(*) from alerts.status")
	rows, err = s.Query(t.Context(), "select * from alerts.status")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil { // with the result open
		t.Fatal(err)
	}
	n := 0
	for rows.Next() {
		n++
	}
	if err := rows.Close(); err != nil || n != 1000 {
		t.Errorf("a result that was open when its server was closed has %d rows, %v", n, err)
	}
}

func TestManyRowsAreChangedInParts(t *testing.T) {
	s := open(t, testengines.Memory(t), Options{BatchRows: 100})
	populate(t, s, 1050)
	head, err := s.Log().Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := exec(t, s, "update alerts.status set Tally = Tally + 1, Severity = 0 where Severity < 99")
	if r.Affected != 1050 || r.Position != head+1050 {
		t.Errorf("the result is %+v, the head was %d", r, head)
	}
	want(t, s, "[[1050 2 2]]", "select count(*), min(Tally), max(Tally) from alerts.status")
	if r := exec(t, s, "delete from alerts.status where Severity = 0"); r.Affected != 1050 {
		t.Errorf("the result is %+v", r)
	}
	want(t, s, "[[0]]", "select count(*) from alerts.status")
	r, err = s.internal.InsertRows(t.Context(), "status", []string{"Identifier"}, [][]any{{"a"}, {"b"}, {"a"}})
	if err != nil || r.Affected != 3 || r.Serial != 1051 || r.Inserted {
		t.Errorf("InsertRows: %+v, %v", r, err)
	}
	for _, rows := range [][][]any{{{"x", 1}}, {{make(chan int)}}} {
		if _, err := s.internal.InsertRows(t.Context(), "status", []string{"Identifier"}, rows); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("InsertRows of %v: %v", rows, err)
		}
	}
	if _, err := s.internal.InsertRows(t.Context(), "catalog.tables", []string{"TableName"}, [][]any{{"x"}}); !errors.Is(err, mainstem.ErrDenied) {
		t.Errorf("InsertRows into a table of the server: %v", err)
	}
}

// small is a log that refuses batches of many bytes.
type small struct {
	mainstem.Log
	limit int
}

func (s small) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	if err := b.Validate(mainstem.Limits{MaxBatchBytes: s.limit}.WithDefaults()); err != nil {
		return mainstem.Receipt{}, err
	}
	return s.Log.Commit(ctx, b)
}

// TestLargeRowsAreChangedInParts: all rows of a statement together are larger than a batch may be.
func TestLargeRowsAreChangedInParts(t *testing.T) {
	const limit = 1 << 20
	s := open(t, small{testengines.Memory(t), limit}, Options{})
	s.partBytes = limit / 2
	const rows, texts = 60, 4
	define, names := "create table d.t (A int primary key, B int", []string{"A"}
	for i := range texts {
		names = append(names, fmt.Sprintf("T%d", i))
		define += fmt.Sprintf(", T%d varchar(8192)", i)
	}
	exec(t, s, "create database d; "+define+")")
	text, given, args := strings.Repeat("x", 8192), make([][]any, rows), []any(nil)
	for i := range given {
		given[i] = []any{i}
		for range texts {
			given[i] = append(given[i], text)
		}
		args = append(args, given[i]...)
	}
	if size := rows * texts * len(text); size < limit {
		t.Fatalf("all rows have %d bytes", size)
	}
	all := func(b int, r Result, err error) {
		t.Helper()
		if err != nil || r.Affected != rows {
			t.Fatalf("%+v, %v", r, err)
		}
		want(t, s, fmt.Sprintf("[[%d %d %d]]", rows, b, b), "select count(*), min(B), max(B) from d.t")
	}
	r, err := s.internal.InsertRows(t.Context(), "d.t", names, given)
	all(0, r, err)
	all(1, exec(t, s, "update d.t set B = B + 1"), nil)
	row := ", (?" + strings.Repeat(", ?", texts) + ")"
	insert := "insert into d.t (" + strings.Join(names, ", ") + ") values " + strings.Repeat(row, rows)[2:] + " updating (T0)"
	all(1, exec(t, s, insert, args...), nil)
}

func TestStatementsTogetherAreOneCommit(t *testing.T) {
	s := open(t, testengines.Memory(t), Options{})
	exec(t, s, "create database d; create table d.t (A int primary key, B int)")
	ss := s.Session(SessionInfo{})
	r, err := ss.Together(t.Context(), "insert into d.t values (1, 1), (2, 2); update d.t set B = B + 10; delete from d.t where B = ?; insert into d.t values (2, 5); update d.t set B = B + 100", 12)
	if err != nil || r.Affected != 8 {
		t.Errorf("%+v, %v", r, err)
	}
	want(t, s, "[[1 111] [2 105]]", "select * from d.t order by A")
	rec, err := s.Log().Get(t.Context(), s.table("d.t").space, encodeKey(s.table("d.t"), []Value{Int(2), Int(0)}))
	if err != nil || rec.Version != 1 || rec.Position != r.Position {
		t.Errorf("the record is %+v, %v", rec, err)
	}
	exec(t, s, "update d.t set B = 1 where A = 1; delete from d.t where A = 2; insert into d.t values (2, 7)")
	if _, err := ss.Together(t.Context(), "update d.t set B = 0; insert into d.t values (1, 1)"); !errors.Is(err, mainstem.ErrExists) {
		t.Errorf("a statement that fails: %v", err)
	}
	if _, err := ss.Together(t.Context(), "update d.t set B = 0; create database e"); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("a definition: %v", err)
	}
	want(t, s, "[[1 1] [2 7]]", "select * from d.t order by A")
	want(t, s, "[[17]]", "select sum(B) + 9 from d.t")
	if _, err := ss.Together(t.Context(), "delete from d.t where A = 1; insert into d.t values (1, 3); update d.t set B = B + 1"); err != nil {
		t.Errorf("a row that goes and comes: %v", err)
	}
	want(t, s, "[[1 4] [2 8]]", "select * from d.t order by A")
}

func TestTypedAccess(t *testing.T) {
	s := open(t, testengines.Memory(t), Options{})
	exec(t, s, "create database d; create table d.t (A int primary key, B real, C boolean, D time, E char(3), F integer64, G unsigned64)")
	at := new(testkit.Clock).Now()
	exec(t, s, "insert into d.t values (?, ?, ?, ?, ?, ?, ?)", int8(-1), float32(1.5), true, at, []byte("abcd"), int64(-1)<<63, uint64(1)<<62)
	rows, err := s.Query(t.Context(), "select *, A + 0.5 as R from d.t")
	if err != nil {
		t.Fatal(err)
	}
	got, err := rows.Collect()
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	r := got[0]
	if r.Int("A") != -1 || r.Get("B").Real() != 1.5 || !r.Get("C").Bool() || !r.Time("D").Equal(at) || r.Text("E") != "abc" ||
		r.Int("F") != -1<<63 || r.Int("G") != 1<<62 || r.Get("R").Real() != -0.5 || r.Has("Z") || r.Int("Z") != 0 || r.Text("Z") != "" {
		t.Errorf("the row is %v", r)
	}
	if got := fmt.Sprint([]any{r.At(0).Any(), r.At(1).Any(), r.At(4).Any(), r.Len()}); got != "[-1 1.5 abc 8]" {
		t.Error(got)
	}
	if database, table := rows.Table(); database != "d" || table != "t" {
		t.Errorf("the result is from %s.%s", database, table)
	}
	if i, ok := s.Table("d.t"); !ok || i.Space != fmt.Sprintf("alert/d.t#%d", s.table("d.t").ID) || len(i.Columns) != 7 || i.Columns[3].Type.String() != "utc" {
		t.Errorf("the table is %+v", i)
	}
	names := map[string]bool{}
	for _, i := range s.Tables() {
		names[i.Database+"."+i.Name] = true
	}
	if !names["alerts.status"] || !names["catalog.columns"] || !names["d.t"] {
		t.Errorf("the tables are %v", names)
	}
}
