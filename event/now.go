package event

import (
	"context"
	"errors"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
)

// This file contains the immediate writes: each is the write of the same name with To, in a batch
// of its own. Append is in append.go, since it is idempotent.

// now commits a batch with the writes that write adds, at the durability of [Options.Durability].
// The error is that of [Store.Explain].
func (s *Store) now(ctx context.Context, write func(b *mainstem.Batch)) error {
	for try := 1; ; try++ {
		b := mainstem.NewBatch()
		b.Durability = s.opts.Durability
		write(b)
		_, err := s.log.Commit(ctx, b)
		if err = s.Explain(ctx, err); try == staleTries || !isStale(err) {
			return err
		}
	}
}

// Delete is [Store.DeleteTo] in a commit of its own. When it returns, the deletion has the
// durability of [Options.Durability], like all immediate writes of the store. The errors are those
// of [Store.Append].
func (s *Store) Delete(ctx context.Context, stream string, expected Expected) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.DeleteTo(b, stream, expected) })
}

// Tombstone is [Store.TombstoneTo] in a commit of its own.
func (s *Store) Tombstone(ctx context.Context, stream string, expected Expected) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.TombstoneTo(b, stream, expected) })
}

// Truncate is [Store.TruncateTo] in a commit of its own.
func (s *Store) Truncate(ctx context.Context, stream string, before mainstem.Version) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.TruncateTo(b, stream, before) })
}

// Archive is [Store.ArchiveTo] in a commit of its own. A stream without events is NotFound, one
// that is sealed already a [*SealedError].
func (s *Store) Archive(ctx context.Context, stream string) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.ArchiveTo(b, stream) })
}

// Unarchive is [Store.UnarchiveTo] in a commit of its own.
func (s *Store) Unarchive(ctx context.Context, stream string) error {
	var failed error
	err := s.now(ctx, func(b *mainstem.Batch) { failed = s.UnarchiveTo(ctx, b, stream) })
	if failed != nil {
		return failed
	}
	return err
}

// Forget is [Store.ForgetTo] in a commit of its own.
func (s *Store) Forget(ctx context.Context, stream string) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.ForgetTo(b, stream) })
}

// Rewrite is [Store.RewriteTo] in a commit of its own.
func (s *Store) Rewrite(ctx context.Context, stream string, version mainstem.Version, ev Event) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.RewriteTo(b, stream, version, ev) })
}

// SetSettings is [Store.SetSettingsTo] in a commit of its own.
func (s *Store) SetSettings(ctx context.Context, stream string, v Settings) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.SetSettingsTo(b, stream, v) })
}

// ModifySettings is [Store.ModifySettingsTo] in a commit of its own. It tries again if another
// writer changes the settings meanwhile, until ctx ends, and returns the new settings.
func (s *Store) ModifySettings(ctx context.Context, stream string, change func(*Settings) error) (v Settings, err error) {
	for n := 1; ; n++ {
		var failed error
		err = s.now(ctx, func(b *mainstem.Batch) { v, failed = s.modifySettings(ctx, b, stream, change) })
		if failed != nil {
			return Settings{}, failed
		}
		if !errors.Is(err, mainstem.ErrConflict) || !modifyPause.Wait(ctx, n) {
			return v, err
		}
	}
}

// modifyPause is the pause that lets other writers of the same settings commit.
var modifyPause = backoff.Policy{First: 50 * time.Microsecond, Max: 20 * time.Millisecond, Jitter: 1}

// SaveSnapshot is [Store.SaveSnapshotTo] in a commit of its own.
func (s *Store) SaveSnapshot(ctx context.Context, snap Snapshot) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.SaveSnapshotTo(b, snap) })
}

// DeleteSnapshots is [Store.DeleteSnapshotsTo] in a commit of its own.
func (s *Store) DeleteSnapshots(ctx context.Context, stream string) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.DeleteSnapshotsTo(b, stream) })
}

// SetCheckpoint is [Store.SetCheckpointTo] in a commit of its own.
func (s *Store) SetCheckpoint(ctx context.Context, name string, position mainstem.Position) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.SetCheckpointTo(b, name, position) })
}

// MoveCheckpoint is [Store.MoveCheckpointTo] in a commit of its own.
func (s *Store) MoveCheckpoint(ctx context.Context, cp Checkpoint, position mainstem.Position) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.MoveCheckpointTo(b, cp, position) })
}

// Park is [Store.ParkTo] in a commit of its own.
func (s *Store) Park(ctx context.Context, p Parked) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.ParkTo(b, p) })
}

// DeleteCheckpoint is [Store.DeleteCheckpointTo] in a commit of its own.
func (s *Store) DeleteCheckpoint(ctx context.Context, name string) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.DeleteCheckpointTo(b, name) })
}

// Unpark is [Store.UnparkTo] in a commit of its own.
func (s *Store) Unpark(ctx context.Context, p Parked) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.UnparkTo(b, p) })
}
