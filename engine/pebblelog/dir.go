package pebblelog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
	"github.com/mainstemdev/mainstem/internal/inuse"
	"github.com/mainstemdev/mainstem/internal/uuid"
)

// Names in the directory of a log, besides format.IdentityName.
const (
	dbDir        = "db"       // Pebble's files
	journalDir   = "journal"  // files of the journal
	lockName     = "LOCK"     // locked while the log is open
	ownerName    = "OWNER"    // describes the process that holds the lock, for error messages of others
	creatingName = "CREATING" // there while a new log is set up: what is found may be thrown away
	relaxedName  = "RELAXED"  // of old formats: exists while commits may have skipped fsync; see salvage
)

var ownNames = []string{format.IdentityName, dbDir, journalDir, lockName, ownerName, creatingName, relaxedName, format.IdentityName + ".tmp", creatingName + ".tmp", relaxedName + ".tmp"}

// directory is the directory of a log, apart from Pebble's files and the journal: identity,
// lock, markers.
type directory struct {
	fs   vfs.FS
	path string
	lock io.Closer
	id   format.Identity
}

func (d *directory) join(name string) string { return d.fs.PathJoin(d.path, name) }

func (d *directory) exists(name string) bool {
	_, err := d.fs.Stat(d.join(name))
	return err == nil
}

// openDirectory locks the directory. fresh is set if it does not hold a log yet, which is an
// error with mustExist or readOnly.
func openDirectory(fsys vfs.FS, path string, mustExist, readOnly bool) (d *directory, fresh bool, err error) {
	d = &directory{fs: fsys, path: path}
	if _, err := fsys.Stat(path); errors.Is(err, fs.ErrNotExist) && mustExist {
		return nil, false, mainstem.Errorf(mainstem.KindNotFound, "open "+path, "there is no such directory")
	}
	if err := d.refuseForeign(mustExist); err != nil {
		return nil, false, err
	}
	if !readOnly {
		if err := d.make(""); err != nil {
			return nil, false, mapError("open "+path, err)
		}
	} else if !d.exists(format.IdentityName) {
		return nil, false, mainstem.Errorf(mainstem.KindNotFound, "open "+path, "the directory holds no log")
	}
	if d.lock, err = fsys.Lock(d.join(lockName)); err != nil {
		return nil, false, d.lockError(err)
	}
	if fresh, err = d.inspect(); err != nil {
		d.lock.Close()
		return nil, false, err
	}
	d.writeOwner()
	return d, fresh, nil
}

// refuseForeign returns an error if the directory holds files but no log, so that nothing is
// created or locked in the directory of another program.
func (d *directory) refuseForeign(mustExist bool) error {
	names, err := d.fs.List(d.path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if errors.Is(err, syscall.ENOTDIR) {
			return &mainstem.Error{
				Kind: mainstem.KindInvalid, Op: "open " + d.path, Err: err,
				Hint: "name an empty or new directory, or one that holds a log",
			}
		}
		return mapError("open "+d.path, err)
	}
	if d.exists(format.IdentityName) || d.exists(creatingName) {
		return nil
	}
	slices.Sort(names)
	for _, name := range names {
		if !slices.Contains(ownNames, name) {
			return mainstem.Errorf(mainstem.KindInvalid, "open "+d.path, "not a Mainstem log: the directory holds %q and no %s file", name, format.IdentityName).
				WithHint("name an empty or new directory, or one that holds a log")
		}
	}
	if d.exists(dbDir) || d.exists(journalDir) {
		return d.corrupt(fmt.Errorf("the file %s is missing beside %s: %w", format.IdentityName, dbDir, format.ErrCorrupt))
	}
	if mustExist {
		return mainstem.Errorf(mainstem.KindNotFound, "open "+d.path, "the directory holds no log")
	}
	return nil
}

// inspect reads the identity file. If there is none, it removes what an interrupted creation has
// left, and reports a fresh directory. If there is one, it makes sure that this can never happen
// to the log.
func (d *directory) inspect() (fresh bool, err error) {
	p, err := d.readFile(format.IdentityName, format.MaxIdentity+1)
	if errors.Is(err, fs.ErrNotExist) {
		for _, name := range []string{dbDir, journalDir} {
			if err := d.fs.RemoveAll(d.join(name)); err != nil {
				return false, mapError("open "+d.path, err)
			}
		}
		return true, d.writeFile(creatingName, nil)
	}
	if err != nil {
		return false, mapError("open "+d.path, err)
	}
	d.id, err = format.DecodeIdentity(p)
	switch {
	case errors.Is(err, format.ErrTooRecent):
		return false, mainstem.Errorf(mainstem.KindInvalid, "open "+d.path, "the log has format %d; this program reads up to format %d", d.id.Format, format.Version).
			WithHint("open it with a newer version of Mainstem")
	case err != nil:
		return false, d.corrupt(fmt.Errorf("file %s: %w: %w", format.IdentityName, format.ErrCorrupt, err))
	}
	if !d.exists(dbDir) {
		return false, d.corrupt(fmt.Errorf("the folder %s is missing: %w", dbDir, format.ErrCorrupt))
	}
	if !d.old() && !d.exists(journalDir) {
		return false, d.corrupt(fmt.Errorf("the folder %s is missing: %w", journalDir, format.ErrCorrupt))
	}
	if d.exists(creatingName) { // the creation was interrupted behind its last step: see establish
		return false, d.removeFile(creatingName)
	}
	return false, nil
}

// make creates the directory, or one below it, durably: it syncs every directory that got a new
// entry.
func (d *directory) make(name string) error {
	path := d.join(name)
	var grown []string
	for p := path; ; {
		parent := d.fs.PathDir(p)
		if _, err := d.fs.Stat(p); err == nil || parent == p {
			break
		}
		grown, p = append(grown, parent), parent
	}
	if err := d.fs.MkdirAll(path, privateDir); err != nil {
		return err
	}
	for _, parent := range grown {
		if err := d.syncDir(parent); err != nil {
			return err
		}
	}
	return nil
}

func (d *directory) corrupt(err error) error { return mapError("open "+d.path, err) }

// establish writes the identity file, which makes a fresh directory a log. It is the last step
// of the creation.
func (d *directory) establish(now time.Time) error {
	d.id = format.Identity{Format: format.Version, ID: uuid.Sorted(now.UnixMilli()).String(), Created: now.UTC().Truncate(time.Second)}
	if err := d.writeFile(format.IdentityName, format.AppendIdentity(nil, d.id)); err != nil {
		return err
	}
	return d.removeFile(creatingName)
}

// lockError distinguishes a lock that another process holds from one that cannot be taken.
func (d *directory) lockError(err error) error {
	var own *mainstem.Error
	var path *fs.PathError
	if errors.As(err, &own) || errors.As(err, &path) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return mapError("open "+d.path, err)
	}
	return d.heldError(err)
}

// old reports whether the log has a format from before the journal.
func (d *directory) old() bool { return d.id.Format < format.Journaled }

// raise sets the format of the log to the newest, durably. Older programs refuse it from then
// on.
func (d *directory) raise() error {
	id := d.id
	id.Format = format.Version
	if err := d.writeFile(format.IdentityName, format.AppendIdentity(nil, id)); err != nil {
		return err
	}
	d.id = id
	return nil
}

func (d *directory) heldError(err error) error {
	owner, _ := d.readFile(ownerName, inuse.MaxOwner)
	return inuse.Error(d.path, owner, err)
}

// writeOwner writes the owner file. It ignores errors: the file only improves the error message
// of another process.
func (d *directory) writeOwner() {
	f, err := d.fs.Create(d.join(ownerName), vfs.WriteCategoryUnspecified)
	if err != nil {
		return
	}
	_, _ = io.WriteString(f, inuse.Owner())
	_ = f.Close()
}

func (d *directory) readFile(name string, limit int64) ([]byte, error) {
	f, err := d.fs.Open(d.join(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// writeFile writes a file durably, completely or not at all.
func (d *directory) writeFile(name string, content []byte) error {
	tmp := d.join(name + ".tmp")
	f, err := d.fs.Create(tmp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return mapError("open "+d.path, err)
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = d.fs.Rename(tmp, d.join(name))
	}
	if err == nil {
		err = d.sync()
	}
	return mapError("open "+d.path, err)
}

func (d *directory) removeFile(name string) error {
	err := d.fs.Remove(d.join(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return mapError("open "+d.path, err)
	}
	return mapError("open "+d.path, d.sync())
}

func (d *directory) sync() error { return d.syncDir(d.path) }

// close releases the lock.
func (d *directory) close() error {
	_ = d.fs.Remove(d.join(ownerName))
	return d.lock.Close()
}
