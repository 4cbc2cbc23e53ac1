package crashtest

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Image is the content of all files below a directory, by path.
type Image map[string][]byte

// ReadImage reads the directory dir of fs and everything below it. Files that are removed
// or renamed meanwhile may be missing.
func ReadImage(fs vfs.FS, dir string) (Image, error) {
	im := Image{}
	return im, im.read(fs, dir)
}

func (im Image) read(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		info, err := fs.Stat(path)
		switch {
		case err != nil:
		case info.IsDir():
			err = im.read(fs, path)
		default:
			im[path], err = readFile(fs, path)
		}
		if errors.Is(err, iofs.ErrNotExist) { // it went away meanwhile
			delete(im, path)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func readFile(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// Paths returns the paths of all files, sorted.
func (im Image) Paths() []string { return slices.Sorted(maps.Keys(im)) }

// FS returns a new file system in memory that holds the image.
func (im Image) FS() (*vfs.MemFS, error) {
	fs := vfs.NewMem()
	return fs, im.write(fs)
}

// CrashableFS returns a new file system in memory of which power cuts can be simulated. It
// holds the image, synced.
func (im Image) CrashableFS() (*vfs.MemFS, error) {
	fs := vfs.NewCrashableMem()
	if err := im.write(fs); err != nil {
		return nil, err
	}
	return fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))}), nil
}

func (im Image) write(fs *vfs.MemFS) error {
	for path, content := range im {
		if err := fs.MkdirAll(fs.PathDir(path), 0o755); err != nil {
			return err
		}
		f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		// An invariants build of Pebble changes what Write is given.
		if _, err := f.Write(slices.Clone(content)); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// Damage is one way to harm one file of an image.
type Damage struct {
	Path  string
	What  string // for people
	Flips bool   // it is one bit
	// Harm returns the file's new content, which it may not share with the old, or
	// nil if the file is to be removed.
	Harm func(content []byte) []byte
}

// String says what is done to which file.
func (d Damage) String() string { return fmt.Sprintf("%s: %s", d.Path, d.What) }

// Apply returns the image with the damage done; im itself is not changed.
func (im Image) Apply(d Damage) Image {
	out := maps.Clone(im)
	if p := d.Harm(im[d.Path]); p != nil {
		out[d.Path] = p
	} else {
		delete(out, d.Path)
	}
	return out
}

// page is the size of what a disk loses at once; edge is how many bytes at both
// ends of a file are harmed one by one: there stand headers, footers and trailers.
const (
	page = 4 << 10
	edge = 32
)

// Damages lists what can happen to a file of n bytes: a bit is flipped at every
// stride-th byte, and in each of the first and last [edge]; it is truncated at some
// lengths, a page is zeroed, it is gone.
func Damages(path string, n, stride int) []Damage {
	var out []Damage
	for i := 0; i < n; i++ {
		if i%stride == 0 || i < edge || i >= n-edge {
			out = append(out, flip(path, i))
		}
	}
	for i := 0; i < n; i += max(1, n/16) {
		out = append(out, truncate(path, i))
	}
	if n > 0 {
		out = append(out, truncate(path, n-1))
	}
	for i := 0; i < n; i += page {
		out = append(out, Damage{Path: path, What: fmt.Sprintf("zeroed page at %d", i), Harm: func(p []byte) []byte {
			p = slices.Clone(p)
			clear(p[i:min(i+page, len(p))])
			return p
		}})
	}
	return append(out, Damage{Path: path, What: "removed", Harm: func([]byte) []byte { return nil }})
}

func flip(path string, i int) Damage {
	return Damage{Path: path, What: fmt.Sprintf("flipped bit %d of byte %d", i%8, i), Flips: true, Harm: func(p []byte) []byte {
		p = slices.Clone(p)
		p[i] ^= 1 << (i % 8)
		return p
	}}
}

func truncate(path string, n int) Damage {
	return Damage{Path: path, What: fmt.Sprintf("truncated to %d bytes", n), Harm: func(p []byte) []byte { return append([]byte{}, p[:n]...) }}
}
