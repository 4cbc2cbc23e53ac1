package pebblelog

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/journal"
	"github.com/mainstemdev/mainstem/internal/uuid"
)

// scratchPrefix begins the name of the checkpoint from which a backup is streamed.
const scratchPrefix = "backup-"

// A backup is a tar stream of sorted files, of the frames of the journal that these lack, of the
// checksums of all of these files, and of the identity, in this order. It has the log at the
// moment of the job in checkpoint. A directory is a log only if it has the identity. The
// identity comes last here and in [Restore], so a truncated backup or an interrupted restore is
// no log.

// Backup implements [mainstem.Backuper]. It takes disk space only for the data in memory: sorted
// files are hard links while they are copied, and the frames that they lack are copied. Commits
// go on meanwhile.
func (l *Log) Backup(ctx context.Context, w io.Writer) error {
	l.backups.Add(1)
	defer l.backups.Add(-1)
	dir := l.dir.join(dbDir + "/" + scratchPrefix + uuid.Random().String())
	defer l.opts.FS.RemoveAll(dir)
	if err := l.checkpoint(ctx, dir); err != nil {
		return err
	}
	return mapError("backup", l.writeTar(ctx, w, dir))
}

// removeScratch removes the checkpoints of backups whose process was killed.
func (l *Log) removeScratch() {
	db := l.dir.join(dbDir)
	names, _ := l.opts.FS.List(db)
	for _, name := range names {
		if strings.HasPrefix(name, scratchPrefix) {
			_ = l.opts.FS.RemoveAll(l.opts.FS.PathJoin(db, name))
		}
	}
}

// checkpoint makes a consistent copy of the log in dir: the directories of Pebble's files and of
// the journal. During the job no frame is added, so the copy ends at l.frame. The pin keeps the
// frames that the sorted files lack until they are copied. They are copied after the job, so
// that commits wait only until links are made, not until bytes are copied.
func (l *Log) checkpoint(ctx context.Context, dir string) error {
	if !l.readers.begin() {
		return &mainstem.Error{Kind: mainstem.KindClosed, Op: "backup"}
	}
	defer l.readers.end()
	if err := l.opts.FS.MkdirAll(dir, privateDir); err != nil {
		return mapError("backup", err)
	}
	var from, to uint64 // range of frames that the sorted files may lack
	release := func() {}
	err := l.exclusive(ctx, "backup", func(*tx) (err error) {
		if l.journal == nil {
			err = l.db.Flush()
		} else {
			to, release = l.frame, l.journal.Pin(1)
		}
		if err == nil {
			from, err = l.storedFrame()
		}
		if err == nil {
			err = l.db.Checkpoint(l.opts.FS.PathJoin(dir, dbDir))
		}
		if serr := l.sound("backup"); serr != nil {
			err = serr // errors of Pebble after the guard has tripped are consequences of it
		}
		return err
	})
	defer func() { release() }()
	if err == nil {
		err = l.copyFrames(ctx, l.opts.FS.PathJoin(dir, journalDir), from, to)
	}
	return withoutOutcome(err)
}

// backupSegment is the size of the first segment of a copied journal, in bytes.
const backupSegment = 64 << 10

// copyFrames makes a journal in dir that has the frames in (from, to].
func (l *Log) copyFrames(ctx context.Context, dir string, from, to uint64) (err error) {
	j, err := journal.Open(l.opts.FS, dir, journal.Options{Create: true, From: mainstem.Position(from + 1), FirstSegment: backupSegment, NoRecycle: true})
	if err != nil {
		return journalError("backup", err)
	}
	defer func() {
		if cerr := j.Close(); err == nil {
			err = journalError("backup", cerr)
		}
	}()
	if l.journal == nil || from == to {
		return nil
	}
	for f, err := range l.journal.Read(mainstem.Position(from + 1)) {
		if err == nil && uint64(f.First) > to {
			return nil
		}
		if err == nil {
			_, err = j.Append([]journal.Frame{f})
		}
		if err != nil {
			return journalError("backup", err)
		}
		if ctx.Err() != nil {
			return mainstem.Ended(ctx, "backup", time.Time{}, "")
		}
	}
	return nil
}

// writeTar streams the files of dir, sorted by name, so that the same files give the same
// stream.
func (l *Log) writeTar(ctx context.Context, w io.Writer, dir string) error {
	t := tar.NewWriter(w)
	s := sums{}
	for _, folder := range []string{dbDir, journalDir} {
		names, err := l.opts.FS.List(l.opts.FS.PathJoin(dir, folder))
		if err != nil {
			return err
		}
		slices.Sort(names)
		for _, name := range names {
			if err := l.tarFile(ctx, t, s, l.opts.FS.PathJoin(dir, folder, name), folder+"/"+name); err != nil {
				return err
			}
		}
	}
	text := s.append(nil)
	if err := t.WriteHeader(tarHeader(sumsName, int64(len(text)))); err != nil {
		return err
	}
	if _, err := t.Write(text); err != nil {
		return err
	}
	// The identity comes last, so a truncated stream is no log.
	if err := l.tarFile(ctx, t, s, l.dir.join(format.IdentityName), format.IdentityName); err != nil {
		return err
	}
	return t.Close()
}

func tarHeader(name string, size int64) *tar.Header {
	return &tar.Header{Name: name, Mode: privateFile, Size: size, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
}

func (l *Log) tarFile(ctx context.Context, t *tar.Writer, s sums, from, name string) error {
	if err := ctx.Err(); err != nil {
		return mainstem.Ended(ctx, "backup", time.Time{}, "")
	}
	f, err := l.opts.FS.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.IsDir() {
		return err
	}
	if err := t.WriteHeader(tarHeader(name, info.Size())); err != nil {
		return err
	}
	h, w := adder(t)
	_, err = io.CopyN(w, f, info.Size())
	s.set(name, h)
	return err
}

// BackupTo makes a consistent copy of the log in the directory path, which must be empty or must
// not exist. Open can open the copy. The copy is durable when BackupTo returns nil.
func (l *Log) BackupTo(ctx context.Context, path string) error {
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := l.Backup(ctx, w)
		w.CloseWithError(err)
		done <- err
	}()
	err := restore(ctx, systemFS, r, path)
	if err == nil {
		_, err = io.Copy(io.Discard, r) // reads the padding at the end of the tar stream
	}
	r.CloseWithError(errors.New("the copy failed"))
	if berr := <-done; berr != nil && (err == nil || mainstem.KindOf(berr) != mainstem.KindInternal) {
		err = berr
	}
	return err
}

// Restore writes the backup that it reads from r to the directory path, which must be empty or
// must not exist. The log is durable when Restore returns nil. If the stream is truncated, or
// was not written by Backup, the error has kind Corrupt, and path holds no log.
func Restore(ctx context.Context, r io.Reader, path string) error {
	return restore(ctx, systemFS, r, path)
}

func restore(ctx context.Context, fsys vfs.FS, r io.Reader, dir string) error {
	names, err := fsys.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return mapError("restore to "+dir, err)
	}
	if len(names) > 0 {
		return mainstem.Errorf(mainstem.KindExists, "restore to "+dir, "the directory is not empty: it holds %q", names[0]).
			WithHint("name an empty or new directory")
	}
	d := &directory{fs: fsys, path: dir}
	if err := d.unpack(ctx, tar.NewReader(r)); err != nil {
		_ = fsys.RemoveAll(d.join(dbDir))
		_ = fsys.RemoveAll(d.join(journalDir))
		_ = fsys.Remove(d.join(format.IdentityName))
		_ = fsys.Remove(d.join(format.IdentityName + ".tmp"))
		return err
	}
	return nil
}

// unpack writes the files of a stream below d durably, the identity last.
func (d *directory) unpack(ctx context.Context, t *tar.Reader) error {
	for _, name := range []string{dbDir, journalDir} {
		if err := d.make(name); err != nil {
			return mapError("restore to "+d.path, err)
		}
	}
	u := unpacking{d: d, sums: sums{}}
	for {
		if err := ctx.Err(); err != nil {
			return mainstem.Ended(ctx, "restore to "+d.path, time.Time{}, "")
		}
		h, err := t.Next()
		if err == nil {
			err = u.file(h, t)
		}
		switch {
		case errors.Is(err, io.EOF):
			return d.notABackup(errors.New("the stream ends before the file " + format.IdentityName))
		case errors.Is(err, errIdentity):
			return nil
		case errors.Is(err, tar.ErrHeader), errors.Is(err, io.ErrUnexpectedEOF):
			return d.notABackup(err)
		case err != nil:
			return mapError("restore to "+d.path, err)
		}
	}
}

// errIdentity is returned after the identity, the last file of a backup, was written.
var errIdentity = errors.New("identity file")

func (d *directory) notABackup(err error) error {
	return &mainstem.Error{Kind: mainstem.KindCorrupt, Op: "restore to " + d.path, Err: err, Hint: "the stream is not a whole backup of a Mainstem log"}
}

// unpacking is a restore under way.
type unpacking struct {
	d       *directory
	sums    sums // of the files written so far
	checked bool // sums match those in the backup
}

// file unpacks one entry of the stream.
func (u *unpacking) file(h *tar.Header, r io.Reader) error {
	d := u.d
	if h.Name == sumsName {
		p, err := io.ReadAll(io.LimitReader(r, maxSums))
		if err != nil {
			return err
		}
		if err := u.sums.check(p); err != nil {
			return d.notABackup(err)
		}
		u.checked = true
		return nil
	}
	if h.Name == format.IdentityName {
		return u.identity(r)
	}
	folder, name, ok := strings.Cut(h.Name, "/")
	ok = ok && (folder == dbDir || folder == journalDir)
	if !ok || name == "" || name != path.Base(name) || name == ".." || h.Typeflag != tar.TypeReg || u.checked {
		return d.notABackup(fmt.Errorf("unexpected entry %.100q", h.Name))
	}
	f, err := d.fs.Create(d.fs.PathJoin(d.path, folder, name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	sum, w := adder(f)
	_, err = io.Copy(w, r)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	u.sums.set(h.Name, sum)
	return err
}

// identity makes the unpacked files a log. It returns errIdentity on success.
func (u *unpacking) identity(r io.Reader) error {
	d := u.d
	p, err := io.ReadAll(io.LimitReader(r, format.MaxIdentity+1))
	if err != nil {
		return err
	}
	if _, err := format.DecodeIdentity(p); err != nil {
		return d.notABackup(err)
	}
	if !u.checked {
		return d.notABackup(fmt.Errorf("the file %s comes before %s", format.IdentityName, sumsName))
	}
	for _, name := range []string{dbDir, journalDir} {
		if err := d.syncDir(d.join(name)); err != nil {
			return err
		}
	}
	if err := d.writeFile(format.IdentityName, p); err != nil {
		return err
	}
	return errIdentity
}

func (d *directory) syncDir(name string) error {
	dir, err := d.fs.OpenDir(name)
	if err != nil {
		return err
	}
	err = dir.Sync()
	if cerr := dir.Close(); err == nil {
		err = cerr
	}
	return err
}
