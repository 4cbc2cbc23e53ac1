package eventcmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mainstemdev/mainstem/event"
)

// FuzzExport: an event is the same when it was written and read back, whatever its data and metadata are.
func FuzzExport(f *testing.F) {
	for _, data := range []string{"", "null", "{}", `{"a":1}`, `{ "a":1}`, `{"a":"\u2028<&>"}`, "[1,2]", "[1,\n2]", `"text"`, "17", "\x00\xff", "{", `{"a":1}x`} {
		f.Add([]byte(data), "ada", true)
	}
	f.Add([]byte(nil), "", false)
	f.Add([]byte("{}"), "ada\xff\xc3", true)
	f.Fuzz(func(t *testing.T, data []byte, user string, custom bool) {
		want := event.Recorded{Stream: "order-1", Version: 1, Position: 7, Event: event.Event{ID: event.NewID(), Type: "A", Data: data}}
		want.Metadata.CorrelationID, want.Metadata.CausationID, want.Metadata.UserID, want.Metadata.TenantID = user, "c"+user, "u"+user, user+"t"
		if custom {
			want.Tags, want.Metadata.Custom = []string{"a:1"}, map[string]string{"k": user, "source": "web"}
		}
		line := exportFields("events", &want).Object()
		if bytes.ContainsAny(line, "\r\n") {
			t.Fatalf("a line of %d parts: %q", bytes.Count(line, []byte("\n")), line)
		}
		var x exported
		if err := json.Unmarshal(line, &x); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got, err := x.event()
		if err != nil || !reflect.DeepEqual(got, want.Event) {
			t.Errorf("%s: got %+v, %v; want %+v", line, got, err, want.Event)
		}
	})
}

// TestResumeExport finds the last whole line, however long, and cuts off what follows it.
func TestResumeExport(t *testing.T) {
	line := func(position int, data string) string {
		return fmt.Sprintf("{\"store\":\"s\",\"position\":%d,\"data\":%q}\n", position, data)
	}
	long := line(8, strings.Repeat("x", 300_000))
	for name, c := range map[string]struct {
		content string
		want    int
		kept    int
		err     string
	}{
		"empty":               {},
		"one line":            {content: line(7, "a"), want: 7, kept: len(line(7, "a"))},
		"a long line":         {content: line(7, "a") + long, want: 8, kept: len(line(7, "a") + long)},
		"a torn line":         {content: line(7, "a") + long[:200_000], want: 7, kept: len(line(7, "a"))},
		"only a torn line":    {content: long[:200_000]},
		"only its first byte": {content: "{"},
		"one foreign line":    {content: "notes of mine", err: "not one of an export of the store s"},
		"one foreign object":  {content: `{"a":1}`, err: "not one of an export of the store s"},
		"not an export":       {content: "hello\n", err: "not one of an export"},
		"of another store":    {content: strings.Replace(line(7, "a"), `"s"`, `"other"`, 1), err: "of the store other, not of s"},
		"lines, then no JSON": {content: line(7, "a") + "x\n", err: "not one of an export"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			got, err := resumeExport(f, "s")
			if c.err != "" {
				after, rerr := os.ReadFile(path)
				if err == nil || !strings.Contains(err.Error(), c.err) || rerr != nil || string(after) != c.content {
					t.Errorf("error %v, want %s; left %.60q, %v", err, c.err, after, rerr)
				}
				return
			}
			info, serr := f.Stat()
			if err != nil || serr != nil || int(got) != c.want || info.Size() != int64(c.kept) {
				t.Errorf("position %d, %v; %d bytes left, %v; want %d, %d", got, err, info.Size(), serr, c.want, c.kept)
			}
		})
	}
}
