package alert_test

import (
	"errors"
	"testing"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/alert"
	"github.com/mainstemdev/mainstem/alert/osql"
	"github.com/mainstemdev/mainstem/internal/testengines"
)

// TestDecoder reads the log itself, as a server's own feed of changes does.
func TestDecoder(t *testing.T) {
	testengines.Each(t, func(t *testing.T, log mainstem.Log) {
		s, err := alert.Open(t.Context(), log, &alert.Options{Every: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		do := func(text string) {
			t.Helper()
			if _, err := s.Exec(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
		const space = alert.SpacePrefix + "alerts.status"
		d, err := alert.OpenDecoder(t.Context(), log, space)
		if err != nil {
			t.Fatal(err)
		}
		newest := func(d *alert.Decoder) (alert.Change, bool, error) {
			t.Helper()
			var last mainstem.Record
			for rec, err := range log.Feed(t.Context(), mainstem.Filter{Spaces: []string{space}}) {
				if err != nil {
					t.Fatal(err)
				}
				last = rec.Clone()
			}
			return d.Change(&last)
		}
		do("insert into alerts.status (Identifier, Severity) values ('a', 5)")
		c, ok, err := newest(d)
		if err != nil || !ok || c.Deleted || c.Row.Text("Identifier") != "a" || c.Row.Int("Severity") != 5 || c.Position == 0 || c.Time.IsZero() {
			t.Errorf("%+v, %v, %v", c, ok, err)
		}
		do("delete from alerts.status where Identifier = 'a'")
		if c, ok, err := newest(d); err != nil || !ok || !c.Deleted || c.Row.Text("Identifier") != "a" || c.Row.Int("Severity") != 0 {
			t.Errorf("%+v, %v, %v", c, ok, err)
		}
		do("alter table alerts.status add column Rack varchar(8)")
		if ok, err := d.Current(t.Context(), log); ok || err != nil {
			t.Errorf("after ALTER: %v, %v", ok, err)
		}
		do("insert into alerts.status (Identifier, Rack) values ('b', 'r1')")
		if _, _, err := newest(d); !errors.Is(err, mainstem.ErrUnavailable) {
			t.Errorf("a row with a new column: %v", err)
		}
		if d, err = alert.OpenDecoder(t.Context(), log, space); err != nil {
			t.Fatal(err)
		}
		if ok, err := d.Current(t.Context(), log); !ok || err != nil {
			t.Errorf("opened anew: %v, %v", ok, err)
		}
		if c, ok, err := newest(d); err != nil || !ok || c.Row.Text("Rack") != "r1" || d.Table().Name != "status" {
			t.Errorf("%+v, %v, %v", c, ok, err)
		}
	})
}

func TestDecoderWithoutATable(t *testing.T) {
	log := testengines.Memory(t)
	for _, space := range []string{"alert/alerts.status", "alert.catalog", "kv/a", "alert/"} {
		if _, err := alert.OpenDecoder(t.Context(), log, space); !errors.Is(err, mainstem.ErrNotFound) {
			t.Errorf("%s: %v", space, err)
		}
	}
	s, err := alert.Open(t.Context(), log, &alert.Options{Every: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Exec(t.Context(), "create table alerts.volatile virtual (A int primary key)"); err != nil {
		t.Fatal(err)
	}
	if _, err := alert.OpenDecoder(t.Context(), log, "alert/alerts.volatile"); !errors.Is(err, mainstem.ErrNotFound) {
		t.Errorf("a table in memory: %v", err)
	}
	d, err := alert.OpenDecoder(t.Context(), log, "alert/alerts.status")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Change(&mainstem.Record{Space: "alert/alerts.status", Key: []byte("sa"), Value: []byte{9}}); !errors.Is(err, mainstem.ErrCorrupt) {
		t.Errorf("what is no row: %v", err)
	}
}

func TestFit(t *testing.T) {
	columns := map[string]alert.Column{}
	for _, c := range alert.StandardColumns("alerts.status") {
		columns[c.Name] = c
	}
	if len(columns) < 60 || alert.StandardColumns("alerts.nothing") != nil || columns["Serial"].Type != osql.Incr {
		t.Fatalf("%d columns", len(columns))
	}
	for _, c := range []struct {
		column string
		in     any
		want   alert.Value
	}{{"Severity", " 5 ", alert.Int(5)}, {"Severity", "", alert.Int(0)}, {"Node", 7, alert.Text("7")}, {"StateChange", time.Unix(9, 0), alert.Int(9)}} {
		if got, err := alert.Fit(c.in, columns[c.column]); err != nil || got != c.want {
			t.Errorf("%s of %v: %v, %v", c.column, c.in, got, err)
		}
	}
	for _, v := range []any{"x", 1 << 40, struct{}{}} {
		if _, err := alert.Fit(v, columns["Severity"]); !errors.Is(err, mainstem.ErrInvalid) {
			t.Errorf("%v: %v", v, err)
		}
	}
}
