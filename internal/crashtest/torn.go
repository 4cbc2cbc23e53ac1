package crashtest

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TornFS is a file system in memory of which a power cut leaves less order than of
// Pebble's: what was not synced is there or not by sectors of 512 bytes, also where a
// file is overwritten, and each name that was made, moved or removed without a sync of
// its directory is the old one or the new one, by itself. Directories are there as soon
// as they are made.
//
// It may be full: writes beyond Capacity bytes fail with ENOSPC.
type TornFS struct {
	vfs.FS // paths and locks

	mu struct {
		sync.Mutex
		names    map[string]*tornNode // now
		durable  map[string]*tornNode // after the last syncs of directories
		dirs     map[string]bool
		capacity int64 // 0: no limit
	}
}

// sector is what a disk writes wholly or not at all.
const sector = 512

// tornNode is a file. TornFS.mu guards it.
type tornNode struct {
	data, synced []byte
}

// NewTornFS returns an empty file system.
func NewTornFS() *TornFS {
	t := &TornFS{FS: vfs.NewMem()}
	t.mu.names, t.mu.durable, t.mu.dirs = map[string]*tornNode{}, map[string]*tornNode{}, map[string]bool{"/": true}
	return t
}

// SetCapacity bounds the bytes of all files; 0 means no bound.
func (t *TornFS) SetCapacity(bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.capacity = bytes
}

// Cut returns what a power cut leaves now. Of what was not synced, percent is kept.
func (t *TornFS) Cut(percent int, rng *rand.Rand) *TornFS {
	t.mu.Lock()
	defer t.mu.Unlock()
	keep := func() bool { return rng.IntN(100) < percent }
	after := NewTornFS()
	maps.Copy(after.mu.dirs, t.mu.dirs)
	names := maps.Clone(t.mu.durable)
	maps.Copy(names, t.mu.names)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		node := t.mu.durable[name]
		if now := t.mu.names[name]; now != node && keep() {
			node = now
		}
		if node != nil {
			p := node.cut(keep)
			after.mu.names[name] = &tornNode{data: p, synced: slices.Clone(p)}
		}
	}
	maps.Copy(after.mu.durable, after.mu.names)
	return after
}

// Kill returns what a process finds that is started when this one is killed now: all of
// it, and what was not synced still is not.
func (t *TornFS) Kill() *TornFS {
	t.mu.Lock()
	defer t.mu.Unlock()
	after := NewTornFS()
	after.mu.capacity = t.mu.capacity
	maps.Copy(after.mu.dirs, t.mu.dirs)
	copies := map[*tornNode]*tornNode{}
	same := func(n *tornNode) *tornNode {
		if copies[n] == nil {
			copies[n] = &tornNode{data: slices.Clone(n.data), synced: slices.Clone(n.synced)}
		}
		return copies[n]
	}
	for name, n := range t.mu.names {
		after.mu.names[name] = same(n)
	}
	for name, n := range t.mu.durable {
		after.mu.durable[name] = same(n)
	}
	return after
}

func (n *tornNode) cut(keep func() bool) []byte {
	p := slices.Clone(n.synced)
	for i := 0; i < len(n.data); i += sector {
		piece := n.data[i:min(i+sector, len(n.data))]
		if !keep() {
			continue
		}
		if grow := i + len(piece) - len(p); grow > 0 {
			p = append(p, make([]byte, grow)...)
		}
		copy(p[i:], piece)
	}
	return p
}

func absent(op, name string) error {
	return &os.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

// Create implements vfs.FS.
func (t *TornFS) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return t.open("create", name, true, true)
}

// Open implements vfs.FS.
func (t *TornFS) Open(name string, _ ...vfs.OpenOption) (vfs.File, error) {
	return t.open("open", name, false, false)
}

// OpenReadWrite implements vfs.FS.
func (t *TornFS) OpenReadWrite(name string, _ vfs.DiskWriteCategory, _ ...vfs.OpenOption) (vfs.File, error) {
	return t.open("open", name, true, false)
}

func (t *TornFS) open(op, name string, make, anew bool) (vfs.File, error) {
	name = path.Clean(name)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.dirs[name] && !make {
		return &tornFile{fs: t, name: name, dir: true}, nil
	}
	n := t.mu.names[name]
	if n == nil && (!make || !t.mu.dirs[path.Dir(name)]) {
		return nil, absent(op, name)
	}
	if n == nil || anew {
		n = &tornNode{}
		t.mu.names[name] = n
	}
	return &tornFile{fs: t, name: name, node: n}, nil
}

// OpenDir implements vfs.FS.
func (t *TornFS) OpenDir(name string) (vfs.File, error) {
	f, err := t.Open(name)
	if err == nil && !f.(*tornFile).dir {
		return nil, &os.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}
	return f, err
}

// MkdirAll implements vfs.FS.
func (t *TornFS) MkdirAll(name string, _ os.FileMode) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name = path.Clean(name); !t.mu.dirs[name]; name = path.Dir(name) {
		t.mu.dirs[name] = true
	}
	return nil
}

// Remove implements vfs.FS.
func (t *TornFS) Remove(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.names[path.Clean(name)] == nil {
		return absent("remove", name)
	}
	delete(t.mu.names, path.Clean(name))
	return nil
}

// Rename implements vfs.FS.
func (t *TornFS) Rename(from, to string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.mu.names[path.Clean(from)]
	if n == nil {
		return absent("rename", from)
	}
	delete(t.mu.names, path.Clean(from))
	t.mu.names[path.Clean(to)] = n
	return nil
}

// Link implements vfs.FS.
func (t *TornFS) Link(from, to string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.mu.names[path.Clean(from)]
	switch {
	case n == nil || !t.mu.dirs[path.Dir(path.Clean(to))]:
		return absent("link", from)
	case t.mu.names[path.Clean(to)] != nil:
		return &os.PathError{Op: "link", Path: to, Err: fs.ErrExist}
	}
	t.mu.names[path.Clean(to)] = n
	return nil
}

// ReuseForWrite implements vfs.FS.
func (t *TornFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := t.Rename(from, to); err != nil {
		return nil, err
	}
	return t.OpenReadWrite(to, c)
}

// RemoveAll implements vfs.FS.
func (t *TornFS) RemoveAll(name string) error {
	below := path.Clean(name) + "/"
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.mu.names, path.Clean(name))
	delete(t.mu.dirs, path.Clean(name))
	maps.DeleteFunc(t.mu.names, func(name string, _ *tornNode) bool { return strings.HasPrefix(name, below) })
	maps.DeleteFunc(t.mu.dirs, func(name string, _ bool) bool { return strings.HasPrefix(name, below) })
	return nil
}

// Lock implements vfs.FS. It keeps nobody away.
func (t *TornFS) Lock(name string) (io.Closer, error) {
	f, err := t.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// List implements vfs.FS.
func (t *TornFS) List(dir string) ([]string, error) {
	dir = path.Clean(dir)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.mu.dirs[dir] {
		return nil, absent("list", dir)
	}
	var out []string
	for name := range t.mu.names {
		if path.Dir(name) == dir {
			out = append(out, path.Base(name))
		}
	}
	for name := range t.mu.dirs {
		if name != dir && path.Dir(name) == dir {
			out = append(out, path.Base(name))
		}
	}
	return out, nil
}

// Stat implements vfs.FS.
func (t *TornFS) Stat(name string) (vfs.FileInfo, error) {
	f, err := t.Open(name)
	if err != nil {
		return nil, err
	}
	return f.Stat()
}

// GetDiskUsage implements vfs.FS.
func (t *TornFS) GetDiskUsage(string) (vfs.DiskUsage, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.capacity == 0 {
		return vfs.DiskUsage{}, vfs.ErrUnsupported
	}
	used := t.usedLocked()
	return vfs.DiskUsage{AvailBytes: uint64(max(t.mu.capacity-used, 0)), TotalBytes: uint64(t.mu.capacity), UsedBytes: uint64(used)}, nil
}

func (t *TornFS) usedLocked() (n int64) {
	for _, node := range t.mu.names {
		n += int64(len(node.data))
	}
	return n
}

// Unwrap implements vfs.FS.
func (t *TornFS) Unwrap() vfs.FS { return nil }

// tornFile is an open file or directory.
type tornFile struct {
	fs   *TornFS
	name string
	node *tornNode
	dir  bool
	pos  int64 // one goroutine uses Read and Write
}

func (f *tornFile) Close() error { return nil }

func (f *tornFile) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.pos)
	if f.pos += int64(n); n > 0 {
		err = nil
	}
	return n, err
}

func (f *tornFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if off >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *tornFile) Write(p []byte) (int, error) {
	n, err := f.WriteAt(p, f.pos)
	f.pos += int64(n)
	return n, err
}

func (f *tornFile) WriteAt(p []byte, off int64) (int, error) {
	t := f.fs
	t.mu.Lock()
	defer t.mu.Unlock()
	if grow := off + int64(len(p)) - int64(len(f.node.data)); grow > 0 {
		if t.mu.capacity > 0 && t.usedLocked()+grow > t.mu.capacity {
			return 0, &os.PathError{Op: "write", Path: f.name, Err: syscall.ENOSPC}
		}
		f.node.data = append(f.node.data, make([]byte, grow)...)
	}
	return copy(f.node.data[off:], p), nil
}

func (f *tornFile) Sync() error {
	t := f.fs
	t.mu.Lock()
	defer t.mu.Unlock()
	if !f.dir {
		f.node.synced = append(f.node.synced[:0], f.node.data...)
		return nil
	}
	in := func(name string, _ *tornNode) bool { return path.Dir(name) == f.name }
	maps.DeleteFunc(t.mu.durable, in)
	for name, n := range t.mu.names {
		if in(name, n) {
			t.mu.durable[name] = n
		}
	}
	return nil
}

func (f *tornFile) SyncData() error { return f.Sync() }

// SyncTo promises nothing, as it may.
func (f *tornFile) SyncTo(int64) (bool, error)   { return false, nil }
func (f *tornFile) Preallocate(_, _ int64) error { return nil }
func (f *tornFile) Prefetch(int64, int64) error  { return nil }
func (f *tornFile) Fd() uintptr                  { return vfs.InvalidFd }
func (f *tornFile) Stat() (vfs.FileInfo, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	info := tornInfo{name: path.Base(f.name), dir: f.dir}
	if !f.dir {
		info.size = int64(len(f.node.data))
	}
	return info, nil
}

type tornInfo struct {
	name string
	size int64
	dir  bool
}

func (i tornInfo) Name() string           { return i.name }
func (i tornInfo) Size() int64            { return i.size }
func (i tornInfo) IsDir() bool            { return i.dir }
func (i tornInfo) ModTime() time.Time     { return time.Time{} }
func (i tornInfo) Sys() any               { return nil }
func (i tornInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
func (i tornInfo) Mode() os.FileMode {
	if i.dir {
		return os.ModeDir | 0o700
	}
	return 0o600
}

// String names the files and their sizes.
func (t *TornFS) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := ""
	for _, name := range slices.Sorted(maps.Keys(t.mu.names)) {
		s += fmt.Sprintf("%8d %s\n", len(t.mu.names[name].data), name)
	}
	return s
}
