package result_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstemdev/mainstem/bench/internal/result"
	"github.com/mainstemdev/mainstem/bench/internal/runnertest"
)

func encoded(t testing.TB) []byte {
	var b bytes.Buffer
	if err := result.Write(&b, runnertest.Results()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReadsWhatItWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "results.json")
	want := runnertest.Results()
	if err := result.WriteFile(path, want); err != nil {
		t.Fatal(err)
	}
	got, err := result.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("%d files are there, want the one", len(left))
	}
}

func TestReadIsStrict(t *testing.T) {
	good := string(encoded(t))
	for name, bad := range map[string]string{
		"empty":            "",
		"cut off":          good[:len(good)/2],
		"more after it":    good + "{}",
		"another version":  strings.Replace(good, `"version": 2`, `"version": 3`, 1),
		"unknown field":    strings.Replace(good, `"version": 2`, `"version": 2, "extra": 0`, 1),
		"the same row":     strings.ReplaceAll(good, `"contender":"bbolt"`, `"contender":"mainstem-pebble-fsync"`),
		"before all":       strings.Replace(good, `"version": 2`, `"version": 0`, 1),
		"a broken way":     strings.Replace(good, `"transport":"in process"`, `"transport":"in\nprocess"`, 1),
		"unknown status":   strings.Replace(good, `"status":"ok"`, `"status":"fine"`, 1),
		"no operations":    strings.Replace(good, `"ops":1000`, `"ops":0`, 1),
		"a way out":        strings.Replace(good, `"suite":"kv"`, `"suite":"../kv"`, 1),
		"no contender":     strings.Replace(good, `"contender":"bbolt"`, `"contender":""`, 1),
		"missing primary":  strings.Replace(good, `"primary":"resident"`, `"primary":"other"`, 1),
		"number too large": strings.Replace(good, `"ns":180000`, `"ns":1e400`, 1),
	} {
		if bad == good {
			t.Fatalf("%s: the text to replace is not there", name)
		}
		if _, err := result.Read(strings.NewReader(bad)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestReadsOlderFiles: a file that was written before rows had a transport is read as
// one that does not say it, and can be written again.
func TestReadsOlderFiles(t *testing.T) {
	f, err := result.ReadFile(filepath.Join("testdata", "version-1.json"))
	if err != nil {
		t.Fatal(err)
	}
	if f.Version != result.Version || len(f.Rows) == 0 {
		t.Errorf("version %d with %d rows, want %d with some", f.Version, len(f.Rows), result.Version)
	}
	for i := range f.Rows {
		if r := &f.Rows[i]; r.Transport != "" || r.Over() != result.Unknown {
			t.Errorf("%s is reached over %q", r.Name(), r.Over())
		}
	}
	var b bytes.Buffer
	if err := result.Write(&b, f); err != nil {
		t.Fatal(err)
	}
	again, err := result.Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(f, again); d != "" {
		t.Error(d)
	}
}

// endless is a reader without an end.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	if e.read += len(b); e.read > result.MaxFile+1<<20 {
		return 0, errors.New("read far too much")
	}
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

func TestReadIsBounded(t *testing.T) {
	if _, err := result.Read(io.Reader(&endless{})); err == nil || !strings.Contains(err.Error(), "the limit") {
		t.Errorf("an endless file: %v, want an error that names the limit", err)
	}
}

func TestWriteRefusesWhatIsNoNumber(t *testing.T) {
	f := runnertest.Results()
	f.Rows[0].Samples[0].Time = math.NaN()
	if err := result.Write(io.Discard, f); err == nil {
		t.Error("a time that is not a number was written")
	}
}

func FuzzRead(f *testing.F) {
	f.Add(encoded(f))
	f.Add([]byte(`{"version": 1, "rows": []}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := result.Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := result.Write(&b, file); err != nil {
			t.Fatalf("it was read and cannot be written: %v", err)
		}
		again, err := result.Read(&b)
		if err != nil {
			t.Fatalf("it was written and cannot be read: %v", err)
		}
		if len(again.Rows) != len(file.Rows) {
			t.Fatalf("%d rows became %d", len(file.Rows), len(again.Rows))
		}
	})
}
