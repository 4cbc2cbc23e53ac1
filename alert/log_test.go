package alert

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/testengines"
	"github.com/mainstemdev/mainstem/internal/testkit"
)

func TestInsertIntoABatch(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		s := open(t, log, Options{})
		ctx := t.Context()
		b := mainstem.NewBatch()
		b.Ensure("other", mainstem.Policy{})
		b.Put("other", []byte("k"), []byte("v"))
		alert := func(b *mainstem.Batch, id string) error {
			return s.InsertTo(ctx, b, "alerts.status", map[string]any{"Identifier": id, "Severity": 5, "Summary": "raised"})
		}
		for _, id := range []string{"a", "b", "a"} {
			if err := alert(b, id); err != nil {
				t.Fatal(err)
			}
		}
		want(t, s, "[[0]]", "select count(*) from alerts.status")
		r, err := log.Commit(ctx, b)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Wait(ctx, r.Last); err != nil {
			t.Fatal(err)
		}
		want(t, s, "[[a 1 2] [b 2 1]]", "select Identifier, Serial, Tally from alerts.status order by Serial")

		b = mainstem.NewBatch()
		b.Put("other", []byte("k"), []byte("again"))
		if err := alert(b, "a"); err != nil {
			t.Fatal(err)
		}
		exec(t, s, "update alerts.status set Severity = 0 where Identifier = 'a'")
		if _, err := log.Commit(ctx, b); !errors.Is(err, mainstem.ErrConflict) {
			t.Errorf("a batch that is behind: %v", err)
		}
		b = mainstem.NewBatch()
		if err := alert(b, "a"); err != nil {
			t.Fatal(err)
		}
		if r, err = log.Commit(ctx, b); err != nil {
			t.Fatal(err)
		}
		if err := s.Wait(ctx, r.Last); err != nil {
			t.Fatal(err)
		}
		want(t, s, "[[3 5 3]]", "select Tally, Severity, (select max(Serial) from alerts.status) + 1 from alerts.status where Identifier = 'a'")
		b = mainstem.NewBatch()
		for range 2 { // deduplicate_details leaves the second one out
			if err := s.InsertTo(ctx, b, "alerts.details", map[string]any{"KeyField": "k", "Identifier": "a"}); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(b.Writes()); n != 1 {
			t.Errorf("the batch has %d writes for one row", n)
		}
		b = mainstem.NewBatch()
		if err := s.InsertTo(ctx, b, "alerts.status", map[string]any{"Identifier": "x", "Nope": 1}); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("a column that does not exist: %v", err)
		}
		if _, err := log.Commit(ctx, b); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("the batch of a mistake: %v", err)
		}
	})
}

func TestInsertAtOnce(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		s := open(t, log, Options{})
		for range 2 {
			if err := s.Insert(t.Context(), "alerts.status", map[string]any{"Identifier": "a", "Severity": 5}); err != nil {
				t.Fatal(err)
			}
		}
		want(t, s, "[[a 5 2]]", "select Identifier, Severity, Tally from alerts.status")
		if err := s.Insert(t.Context(), "alerts.status", map[string]any{"Identifier": "x", "Nope": 1}); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("a column that does not exist: %v", err)
		}
	})
}

func TestChanges(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		c := new(testkit.Clock)
		s := open(t, log, Options{Now: c.Now})
		exec(t, s, "insert into alerts.status (Identifier) values ('old')")
		c.Advance(time.Minute)
		r := exec(t, s, "insert into alerts.status (Identifier) values ('a'), ('b')")
		exec(t, s, "delete from alerts.status where Identifier = 'b'")
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var got []string
		show := func(c Change) { got = append(got, fmt.Sprint(c.Row.Text("Identifier"), c.Row.Int("Tally"), c.Deleted)) }
		for change, err := range s.Changes(ctx, "alerts.status", &ChangeOptions{Since: c.Now()}) {
			if err != nil {
				t.Fatal(err)
			}
			show(change)
			switch len(got) {
			case 1:
				exec(t, s, "insert into alerts.status (Identifier) values ('a')")
			case 2:
				exec(t, s, "delete from alerts.status where Identifier = 'old'")
			}
			if len(got) == 3 {
				break
			}
		}
		if fmt.Sprint(got) != "[a1 false a2 false old0 true]" {
			t.Errorf("the changes are %v", got)
		}
		got = nil
		for change, err := range s.Changes(ctx, "status", &ChangeOptions{After: r.Position, NoFollow: true}) {
			if err != nil {
				t.Fatal(err)
			}
			show(change)
		}
		if fmt.Sprint(got) != "[b0 true a2 false old0 true]" {
			t.Errorf("what came after %d is %v", r.Position, got)
		}
		got = nil
		for change, err := range s.Changes(ctx, "status", &ChangeOptions{Since: c.Now(), NoFollow: true}) {
			if err != nil {
				t.Fatal(err)
			}
			show(change)
			exec(t, s, "insert into alerts.status (Identifier) values ('late')")
		}
		if fmt.Sprint(got) != "[a2 false]" {
			t.Errorf("the rows without what came meanwhile are %v", got)
		}
		exec(t, s, "alter table alerts.status add column Site int")
		last := func(name string, o *ChangeOptions) (err error) {
			for _, err = range s.Changes(ctx, name, o) {
			}
			return err
		}
		for name, c := range map[string]struct {
			o    *ChangeOptions
			want error
		}{
			"nope":               {nil, mainstem.ErrNotFound},
			"catalog.tables":     {nil, mainstem.ErrUnsupported},
			"alerts.journal":     {&ChangeOptions{Since: c.Now()}, mainstem.ErrInvalid},
			"alerts.status":      {&ChangeOptions{Since: c.Now(), After: 1}, mainstem.ErrInvalid},
			"alerts.conversions": {&ChangeOptions{After: 1, NoFollow: true}, nil},
		} {
			if err := last(name, c.o); !errors.Is(err, c.want) {
				t.Errorf("changes of %s: %v, want %v", name, err, c.want)
			}
		}
		following := make(chan error)
		go func() { following <- last("alerts.status", nil) }()
		testkit.Eventually(t, "the alteration ends the changes", func() bool {
			exec(t, s, "alter table alerts.status drop Site; alter table alerts.status add Site int")
			select {
			case err := <-following:
				if !errors.Is(err, mainstem.ErrUnavailable) {
					t.Errorf("the changes of an altered table end with %v", err)
				}
				return true
			default:
				return false
			}
		})
	})
}

// failing is a log whose commits can be made to fail.
type failing struct {
	mainstem.Log
	mu     sync.Mutex
	before error // nothing is written
	after  error // something is
}

func (f *failing) fail(before, after error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

func (f *failing) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	f.mu.Lock()
	before, after := f.before, f.after
	f.before, f.after = nil, nil
	f.mu.Unlock()
	if before != nil {
		return mainstem.Receipt{}, before
	}
	r, err := f.Log.Commit(ctx, b)
	if after != nil && err == nil {
		return mainstem.Receipt{}, after
	}
	return r, err
}

func TestCommitsThatFail(t *testing.T) {
	log := &failing{Log: testengines.Memory(t)}
	s := open(t, log, Options{})
	exec(t, s, "insert into alerts.status (Identifier) values ('a')")
	full := &mainstem.Error{Kind: mainstem.KindUnavailable, Outcome: mainstem.NotWritten, Err: errors.New("the disk is full")}
	for _, text := range []string{"insert into alerts.status (Identifier) values ('a')", "update alerts.status set Tally = 9", "delete from alerts.status", "alter table alerts.status add X int", "create database d"} {
		log.fail(full, nil)
		if _, err := s.Exec(t.Context(), text); !errors.Is(err, mainstem.ErrUnavailable) {
			t.Errorf("%s: %v", text, err)
		}
		want(t, s, "[[a 1]]", "select Identifier, Tally from alerts.status")
	}
	exec(t, s, "create database d; alter table alerts.status add X int")
	// A commit of which nobody knows whether it was written: the feed tells.
	lost := &mainstem.Error{Kind: mainstem.KindUnavailable, Outcome: mainstem.Unknown, Err: errors.New("the connection was lost")}
	log.fail(nil, lost)
	if _, err := s.Exec(t.Context(), "insert into alerts.status (Identifier) values ('a')"); !errors.Is(err, mainstem.ErrUnknownOutcome) {
		t.Errorf("a lost commit: %v", err)
	}
	testkit.Eventually(t, "the feed brings what was written", func() bool { return fmt.Sprint(query(t, s, "select Tally from alerts.status")) == "[[2]]" })
	log.fail(nil, lost)
	if _, err := s.Exec(t.Context(), "create table d.t (A int primary key)"); !errors.Is(err, mainstem.ErrUnknownOutcome) {
		t.Errorf("a lost definition: %v", err)
	}
	testkit.Eventually(t, "the feed brings the table", func() bool { _, ok := s.Table("d.t"); return ok })
	exec(t, s, "insert into d.t values (1); insert into alerts.status (Identifier, X) values ('a', 1)")
	want(t, s, "[[3]]", "select Tally from alerts.status")
}

// late is a log whose commits are acknowledged when somebody was told of them by a feed:
// at the latest after a while, for nobody must be told before.
type late struct {
	mainstem.Log
	seen chan struct{}
}

func (l late) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	r, err := l.Log.Commit(ctx, b)
	select {
	case <-l.seen:
	case <-time.After(5 * time.Millisecond):
	}
	return r, err
}

func TestAQueryShowsAChangeThatWasYielded(t *testing.T) {
	log := late{testengines.Memory(t), make(chan struct{})}
	s := open(t, log, Options{})
	other := open(t, log, Options{})
	const changes = 20
	start, err := log.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range changes {
			by := s
			if i%2 == 1 {
				by = other
			}
			if _, err := by.Exec(t.Context(), "insert into alerts.status (Identifier) values ('a')"); err != nil {
				t.Error(err)
			}
		}
	}()
	defer func() { <-done }()
	for change, err := range s.Changes(t.Context(), "alerts.status", &ChangeOptions{After: start}) {
		if err != nil {
			t.Fatal(err)
		}
		seen := change.Row.Int("Tally")
		want(t, s, "[[1]]", "select count(*) from alerts.status where Tally >= ?", seen)
		select {
		case log.seen <- struct{}{}:
		default:
		}
		if seen == changes {
			break
		}
	}
}

func TestLeftoversOfADroppedTableAreGone(t *testing.T) {
	log := testengines.Memory(t)
	s := open(t, log, Options{})
	exec(t, s, "create database d; create table d.t (A int primary key, B int); insert into d.t values (1, 5)")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// As if a server had failed before it removed the rows.
	b := mainstem.NewBatch()
	b.Delete(CatalogSpace, []byte("table/d.t"))
	if _, err := log.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	s = open(t, log, Options{})
	exec(t, s, "create table d.t (A int primary key, B int)")
	want(t, s, "[]", "select * from d.t")
	exec(t, s, "insert into d.t values (2, 6); drop table d.t; create table d.t (A int primary key); insert into d.t values (3)")
	want(t, s, "[[3]]", "select * from d.t")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, log, Options{})
	want(t, s, "[[3]]", "select * from d.t")
}

// TestRowsAheadOfTheirTable: a server reads a row with a column that it does not
// know yet, because another added it.
func TestRowsAheadOfTheirTable(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		a := open(t, log, Options{})
		exec(t, a, "create database d; create table d.t (A int primary key)")
		for i := range 20 {
			b := open(t, log, Options{})
			done := make(chan error, 1)
			go func() {
				_, err := a.Exec(context.Background(), fmt.Sprintf("alter table d.t add column C%d int; insert into d.t (A, C%[1]d) values (%[1]d, 1)", i))
				done <- err
			}()
			testkit.Eventually(t, "the row is whole", func() bool {
				rows, err := b.Query(t.Context(), fmt.Sprintf("select C%d from d.t where A = %[1]d", i))
				if err != nil {
					return false
				}
				got, err := rows.Collect()
				return err == nil && len(got) == 1 && got[0].At(0).Int() == 1
			})
			if err := errors.Join(<-done, b.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}, testengines.Only("memory", "model"))
}
