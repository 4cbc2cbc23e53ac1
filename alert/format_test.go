package alert

import (
	"bytes"
	"encoding/hex"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/mainstemdev/mainstem/alert/osql"
)

// sample is a table with a column of each kind and a key of two.
func sample() *table {
	return newTable(&tableRecord{Format: 1, ID: 7, Database: "d", Name: "t", Columns: []Column{
		{ID: 10, Name: "Text", Type: osql.Varchar, Size: 20, PrimaryKey: true},
		{ID: 9, Name: "Number", Type: osql.Integer64, PrimaryKey: true},
		{ID: 12, Name: "Real", Type: osql.Real},
		{ID: 300, Name: "Char", Type: osql.Char, Size: 5},
		{ID: 11, Name: "Flag", Type: osql.Boolean},
	}, Last: 400}, 1)
}

func TestFormatIsWhatItWas(t *testing.T) {
	tab := sample()
	row := []Value{Text("a\x00b"), Int(-2), Real(1.5), Text("é"), Int(0)}
	for what, c := range map[string]struct {
		got  []byte
		want string
	}{
		"row":   {encodeRow(nil, tab, row), "010724032903610062" + "32" + "000000000000f83f" + "b10902c3a9"},
		"empty": {encodeRow(nil, tab, make([]Value, 5)), "0107"},
		"key":   {encodeKey(tab, row), "736100ff620000" + "697ffffffffffffffe"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s is %s, want %s", what, got, c.want)
		}
	}
}

func value(typ Type) *rapid.Generator[Value] {
	return rapid.Custom(func(t *rapid.T) Value {
		switch {
		case typ.Text():
			if rapid.Bool().Draw(t, "plain") {
				return Text(rapid.String().Draw(t, "text"))
			}
			return Text(string(rapid.SliceOf(rapid.SampledFrom([]byte{0, 1, 0xfe, 0xff})).Draw(t, "bytes")))
		case typ == osql.Real:
			return Real(rapid.Float64().Draw(t, "real"))
		}
		return Int(rapid.Int64().Draw(t, "number"))
	})
}

func drawRow(t *rapid.T, tab *table) []Value {
	row := make([]Value, len(tab.Columns))
	for i := range row {
		row[i] = value(tab.Columns[i].Type).Draw(t, tab.Columns[i].Name)
	}
	return row
}

func TestRowsComeBackAsTheyWere(t *testing.T) {
	tab := sample()
	rapid.Check(t, func(t *rapid.T) {
		row, got := drawRow(t, tab), make([]Value, len(tab.Columns))
		origin, err := decodeRow(encodeRow(nil, tab, row), tab, got)
		if err != nil || origin != ownRow || !reflect.DeepEqual(row, got) {
			t.Fatalf("%v became %v, %v, %v", row, got, origin, err)
		}
		other := drawRow(t, tab)
		keys := make([]Value, len(tab.Columns))
		if err := decodeKey(encodeKey(tab, row), tab, keys); err != nil || keys[0] != row[0] || keys[1] != row[1] {
			t.Fatalf("the key of %v became %v, %v", row, keys, err)
		}
		// The keys are in the order of their columns.
		want := bytes.Compare([]byte(row[0].s), []byte(other[0].s))
		if want == 0 {
			want = int(min(1, max(-1, float64(row[1].n)-float64(other[1].n))))
		}
		if got := bytes.Compare(encodeKey(tab, row), encodeKey(tab, other)); got != want {
			t.Fatalf("%v and %v compare as %d, want %d", row[:2], other[:2], got, want)
		}
	})
}

func TestColumnsComeAndGoWithoutTouchingRows(t *testing.T) {
	tab := sample()
	row := []Value{Text("k"), Int(1), Real(2), Text("x"), Int(1)}
	p := encodeRow(nil, tab, row)
	r := tab.record()
	r.Columns = append(r.Columns[:3:3], Column{ID: 401, Name: "New", Type: osql.Integer}) // Char and Flag are gone
	r.Last = 401
	changed := newTable(r, 2)
	got := make([]Value, 4)
	if origin, err := decodeRow(p, changed, got); err != nil || origin != ownRow || got[2] != Real(2) || got[3] != Int(0) {
		t.Errorf("with other columns the row is %v, %v, %v", got, origin, err)
	}
	got[3] = Int(5)
	back := make([]Value, 5)
	if origin, err := decodeRow(encodeRow(nil, changed, got), tab, back); err != nil || origin != newerRow || back[2] != Real(2) {
		t.Errorf("a newer row is %v, %v, %v", back, origin, err)
	}
	r.ID = 8
	if origin, err := decodeRow(p, newTable(r, 1), got); err != nil || origin != foreignRow {
		t.Errorf("the row of another table: %v, %v", origin, err)
	}
}

func FuzzDecodeRow(f *testing.F) {
	tab := sample()
	f.Add(encodeRow(nil, tab, []Value{Text("a"), Int(math.MinInt64), Real(-1), Text("é"), Int(1)}))
	f.Add([]byte{1, 7, 0x24, 0x80})
	f.Fuzz(func(t *testing.T, p []byte) {
		row, again := make([]Value, 5), make([]Value, 5)
		if origin, err := decodeRow(p, tab, row); err != nil || origin != ownRow {
			return
		}
		if _, err := decodeRow(encodeRow(nil, tab, row), tab, again); err != nil || !reflect.DeepEqual(row, again) {
			t.Errorf("%v became %v, %v", row, again, err)
		}
	})
}

func FuzzDecodeKey(f *testing.F) {
	tab := sample()
	f.Add(encodeKey(tab, []Value{Text("a\x00"), Int(5)}))
	f.Fuzz(func(t *testing.T, p []byte) {
		row := make([]Value, 5)
		if err := decodeKey(p, tab, row); err == nil && !bytes.Equal(encodeKey(tab, row), p) {
			t.Errorf("%x became %v", p, row)
		}
	})
}

func FuzzDecodeTable(f *testing.F) {
	next := uint64(1)
	for _, d := range standardTables()[2:4] {
		r := d.record(&next)
		f.Add(mustJSON(f, r))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		tab, err := decodeTable(p, 1)
		if err != nil {
			return
		}
		again, err := decodeTable(mustJSON(t, tab.record()), 1)
		if err != nil || !reflect.DeepEqual(tab.Columns, again.Columns) {
			t.Errorf("%v became %v, %v", tab, again, err)
		}
	})
}

func TestValuesFitTheirColumns(t *testing.T) {
	column := func(typ Type, size int) *Column { return &Column{Name: "C", Type: typ, Size: size} }
	for _, c := range []struct {
		v    Value
		c    *Column
		want Value
		ok   bool
	}{
		{Text("abc"), column(osql.Varchar, 2), Text("ab"), true},
		{Text("aéb"), column(osql.Varchar, 2), Text("a"), true},
		{Text("\xff\xfe\xfd"), column(osql.Varchar, 2), Text("\xff\xfe"), true},
		{Int(12345), column(osql.Char, 3), Text("123"), true},
		{Real(1.5), column(osql.Varchar, 9), Text("1.5"), true},
		{Text(" 7 "), column(osql.Integer, 4), Int(7), true},
		{Text(""), column(osql.Integer, 4), Int(0), true},
		{Text("x"), column(osql.Integer, 4), Int(0), false},
		{Real(2.9), column(osql.Integer, 4), Int(2), true},
		{Real(math.Inf(1)), column(osql.Integer64, 8), Int(0), false},
		{Int(math.MaxInt32), column(osql.Integer, 4), Int(math.MaxInt32), true},
		{Int(math.MaxInt32 + 1), column(osql.Integer, 4), Int(0), false},
		{Int(math.MaxInt32 + 1), column(osql.Time, 4), Int(math.MaxInt32 + 1), true},
		{Int(-1), column(osql.Time, 4), Int(0), false},
		{Int(7), column(osql.Boolean, 1), Int(1), true},
		{Text("TRUE"), column(osql.Boolean, 1), Int(1), true},
		{Text("no"), column(osql.Boolean, 1), Int(0), false},
		{Text("2.5"), column(osql.Real, 8), Real(2.5), true},
		{Int(2), column(osql.Real, 8), Real(2), true},
		{Text("x"), column(osql.Real, 8), Real(0), false},
	} {
		got, err := fit(c.v, c.c)
		if (err == nil) != c.ok || c.ok && got != c.want {
			t.Errorf("%v in a column of type %s: %v, %v", c.v, c.c.Type, got, err)
		}
	}
}
