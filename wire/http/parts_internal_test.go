package viewhttp

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/budget"
)

func TestCountParts(t *testing.T) {
	for text, want := range map[string]int{
		``: 0, `1`: 0, `"`: 0, `"\`: 0, `{}`: 1, `[]`: 1, `[1,2]`: 2, `{"a":"b","c":"d"}`: 2,
		`["a,[{","\",","\\",1]`:      4,
		`[{},{},{}]`:                 6,
		`{"json":[1,2,{"a":[]}]}`:    1,
		`{"json" : {"a":1,"b":2}}`:   1,
		`{"json":1,"key":2}`:         2,
		`{"data":[1,"]",2],"a":[1]}`: 3,
		`["json",[1,2]]`:             4,
		`{"json":[1,2`:               1,
		`{"json`:                     1,
		`{"json":`:                   1,
		`{"Json":[1,2]}`:             3,
	} {
		if got := countParts([]byte(text)); got != want {
			t.Errorf("%s has %d parts, want %d", text, got, want)
		}
	}
}

// TestPartsOfADocumentTakeMemory before they are decoded.
func TestPartsOfADocumentTakeMemory(t *testing.T) {
	var o *Options
	h := &Handler{o: o.withDefaults(), memory: budget.New("http", 1<<40)}
	read := func(body string) (int64, error) {
		c := newCall(h, httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader(body)))
		_, _, err := readList[newRecord](c, 10)
		return c.memory.Size(), err
	}
	const headers = 100_000
	body := `[{"text":"x","headers":[{}` + strings.Repeat(",{}", headers-1) + `]}]`
	if n, err := read(body); err != nil || n < int64(jsonCopies*len(body)+2*headers*partMemory) {
		t.Errorf("%d headers take %d bytes: %v", headers, n, err)
	}
	body = `[{"json":[0` + strings.Repeat(",0", headers) + `]}]`
	if n, err := read(body); err != nil || n > int64(jsonCopies*len(body)+10*partMemory) {
		t.Errorf("a value that stays bytes takes %d: %v", n, err)
	}
	if _, err := read(`[{"headers":[{}` + strings.Repeat(",{}", minMaxParts/2) + `]}]`); !errors.Is(err, mainstem.ErrInvalid) {
		t.Errorf("too many parts: %v", err)
	}
}
