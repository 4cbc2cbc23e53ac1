package pebblelog

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
)

// Logs of formats 1 and 2 have no journal: groups are records of Pebble's write-ahead log. For
// an upgrade, Pebble replays that log and flushes everything to sorted files. Then upgrade makes
// an empty journal and raises the format. Until that is durable, the directory has the old
// format and all of its data, and the next open begins the upgrade again.

// mayUpgrade returns an error unless the options allow an upgrade of the log.
func (l *Log) mayUpgrade() error {
	if l.opts.Upgrade || l.opts.ReadOnly { // with ReadOnly the upgrade is in memory
		return nil
	}
	return mainstem.Errorf(mainstem.KindInvalid, "open "+l.dir.path, "the log has format %d; this version writes format %d, which older ones cannot open", l.dir.id.Format, format.Version).
		WithHint("make a backup, and upgrade it: start `mainstem serve` with it, or set Options.Upgrade")
}

// openOldPebble opens Pebble with its write-ahead log, which it replays.
func (l *Log) openOldPebble() (*pebble.DB, error) {
	path := l.dir.join(dbDir)
	relaxed := l.dir.exists(relaxedName)
	l.fs.replaying.Store(!relaxed)
	defer l.fs.replaying.Store(false)
	db, err := pebble.Open(path, l.pebbleOptions(false))
	if !pebble.IsCorruptionError(err) || !relaxed {
		return db, err
	}
	cut, serr := salvage(l.opts.FS, path)
	if serr != nil || !cut {
		return nil, errors.Join(err, serr)
	}
	l.opts.Logger.Warn("the log's tail was lost in a crash: commits at durability os or interval since the last sync are gone", "dir", l.dir.path)
	return pebble.Open(path, l.pebbleOptions(false))
}

// upgrade raises a log opened by openOldPebble to the newest format.
func (l *Log) upgrade() error {
	if err := l.db.Flush(); err != nil {
		return err
	}
	if err := l.sound("upgrade " + l.dir.path); err != nil {
		return err
	}
	was := l.dir.id.Format
	if l.dir.exists(relaxedName) { // sorted files have what it was needed for
		if err := l.dir.removeFile(relaxedName); err != nil {
			return err
		}
	}
	if err := l.createJournal(); err != nil {
		return err
	}
	if err := l.dir.raise(); err != nil {
		return err
	}
	l.opts.Logger.Info("the log was upgraded: older versions of the program cannot open it any more", "dir", l.dir.path, "from", was, "to", l.dir.id.Format)
	return nil
}
