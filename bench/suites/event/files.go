package event

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"
)

// The image of a store that is open is taken when its files have stood still.
const (
	imageTries = 100
	imagePause = 50 * time.Millisecond
)

// image copies the directory of an open store: what a process that is killed now
// leaves behind, because what it has handed to the operating system stays. It takes
// the copy again if files came, went or grew meanwhile.
func image(ctx context.Context, from, to string) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for range imageTries {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		before, err := listing(from)
		if err == nil {
			err = errors.Join(os.RemoveAll(to), copyTree(from, to))
		}
		after, later := listing(from)
		if err == nil && later == nil && maps.Equal(before, after) {
			return nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		pause.Reset(imagePause)
	}
	return fmt.Errorf("the files in %s did not stand still for a copy", from)
}

// listing returns the size and the time of the last change of all files.
func listing(dir string) (map[string]string, error) {
	files := map[string]string{}
	return files, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			files[path] = fmt.Sprint(info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
}

func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		if !d.Type().IsRegular() {
			return nil // a socket or a lock
		}
		return copyFile(path, target)
	})
}

// copyFile copies a file, but not its holes: some stores reserve gigabytes.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return errors.Join(err, in.Close())
	}
	err = copyData(in, out)
	return errors.Join(err, in.Close(), out.Close())
}

func copyData(in, out *os.File) error {
	info, err := in.Stat()
	if err != nil {
		return err
	}
	for at := int64(0); ; {
		from, to, err := data(in, at)
		if err == io.EOF {
			return out.Truncate(info.Size())
		}
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(out, from), io.NewSectionReader(in, from, to-from)); err != nil {
			return err
		}
		at = to
	}
}

// diskBytes returns what the files of dir take on the disk.
func diskBytes(dir string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignoreGone(err)
		}
		info, err := d.Info()
		if err == nil {
			sum += allocated(info)
		}
		return ignoreGone(err)
	})
	return sum, err
}

// ignoreGone leaves out files that a store has just removed.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
