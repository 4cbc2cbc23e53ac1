package result

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// The limits of a file that is read.
const (
	MaxFile    = 64 << 20 // bytes
	MaxRows    = 100_000
	MaxSamples = 10_000 // of one row; also values of a metric
	MaxMarks   = 100_000
	MaxMetrics = 1_000
	MaxName    = 200 // bytes of a name
	MaxText    = 10_000
)

// Read reads a file that Write wrote, in this version or an older one, and makes it one
// of this version. It reads at most MaxFile bytes.
func Read(r io.Reader) (*File, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	if len(data) > MaxFile {
		return nil, fmt.Errorf("read results: more than %d bytes: the limit", MaxFile)
	}
	var version struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	if version.Version < oldest || version.Version > Version {
		return nil, fmt.Errorf("read results: format %d: this program reads formats %d to %d; measure again", version.Version, oldest, Version)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var f File
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	f.Version = Version
	if err := f.Validate(); err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	return &f, nil
}

// ReadFile reads the file at path.
func ReadFile(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	results, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return results, nil
}

// Write writes the file as JSON: indented, but for the rows, which have a line each.
func Write(w io.Writer, f *File) error {
	if err := f.Validate(); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	head := *f
	head.Rows = []Row{}
	data, err := json.MarshalIndent(head, "", " ")
	if err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	out := bytes.NewBuffer(bytes.TrimSuffix(data, []byte("]\n}"))) // rows are the last field
	for i := range f.Rows {
		row, err := json.Marshal(&f.Rows[i])
		if err != nil {
			return fmt.Errorf("write results: %w", err)
		}
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteByte('\n')
		out.Write(row)
	}
	out.WriteString("\n]}\n")
	_, err = w.Write(out.Bytes())
	return err
}

// WriteFile writes the file at path, wholly or not at all, and makes its folder.
func WriteFile(path string, f *File) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	t, err := os.CreateTemp(filepath.Dir(path), ".results-*")
	if err != nil {
		return err
	}
	defer os.Remove(t.Name()) // fails when the file has its name
	if err := Write(t, f); err != nil {
		t.Close()
		return err
	}
	if err := t.Chmod(0o644); err != nil {
		t.Close()
		return err
	}
	if err := t.Close(); err != nil {
		return err
	}
	return os.Rename(t.Name(), path)
}
