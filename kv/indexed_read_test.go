package kv_test

import (
	"math"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/kv"
)

// A complete text as the last of a Prefix selects that text, and none that continues with a zero byte.
func TestPrefixEndsWithItsText(t *testing.T) {
	each(t, func(t *testing.T, log mainstem.Log) {
		x := openIndexed(t, log, "app/texts", nil,
			kv.Index[string]{Name: "text", Of: func(s string) []kv.Part { return []kv.Part{kv.Text(s)} }},
			kv.Index[string]{Name: "bytes", Unique: true, Of: func(s string) []kv.Part { return []kv.Part{kv.Bytes([]byte(s))} }},
			kv.Index[string]{Name: "two", Of: func(s string) []kv.Part { return []kv.Part{kv.Int(1), kv.Text(s), kv.Null()} }})
		for key, text := range map[string]string{"1": "x", "2": "x\x00", "3": "x\x00c", "4": "xy", "5": "", "6": "w"} {
			set(t, x, key, text)
		}
		for _, c := range []struct {
			index  string
			prefix []kv.Part
			want   string
		}{
			{"text", []kv.Part{kv.Text("x")}, "1"},
			{"text", []kv.Part{kv.Text("x\x00")}, "2"},
			{"text", []kv.Part{kv.Text("")}, "5"},
			{"bytes", []kv.Part{kv.Bytes([]byte("x"))}, "1"},
			{"two", []kv.Part{kv.Int(1), kv.Text("x")}, "1"},
		} {
			for _, reverse := range []bool{false, true} {
				if got := found(t, x, c.index, &kv.IndexQuery{Prefix: c.prefix, Reverse: reverse}); got != c.want {
					t.Errorf("%s %v, reverse %v: %s, want %s", c.index, c.prefix, reverse, got, c.want)
				}
			}
			if got := found(t, x, c.index, &kv.IndexQuery{Prefix: c.prefix, End: c.prefix}); got != "" {
				t.Errorf("%s %v, up to itself: %s", c.index, c.prefix, got)
			}
		}
		if got := found(t, x, "text", &kv.IndexQuery{Prefix: []kv.Part{kv.TextPrefix("x")}}); got != "1 2 3 4" {
			t.Errorf("texts that begin with x: %s", got)
		}
		if got := found(t, x, "two", &kv.IndexQuery{Prefix: []kv.Part{kv.Int(1)}, Start: []kv.Part{kv.Int(1), kv.Text("x\x00")}}); got != "2 3 4" {
			t.Errorf("from x and a zero byte: %s", got)
		}
	})
}

func TestLimitsOfPagesOfAnIndex(t *testing.T) {
	log := must[mainstem.Log](t)(memory(t))
	x := members(t, log)
	set(t, x, "1", member{Email: "a"})
	set(t, x, "2", member{Email: "b"})
	_, _, err := x.By("email").Page(t.Context(), &kv.IndexQuery{Limit: -1})
	wantErr(t, err, mainstem.ErrInvalid)
	entries, next, err := x.By("email").Page(t.Context(), &kv.IndexQuery{Limit: math.MaxInt})
	if check(t, err); len(entries) != 2 || next != "" {
		t.Errorf("the largest limit: %v, %q", entries, next)
	}
}
