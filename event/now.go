package event

import (
	"context"
	"errors"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/backoff"
)

// This file holds the writes that are made at once: each is the one of the same name
// with To, in a batch of its own. Append has a file of its own, since it is idempotent.

// now commits what write adds to a batch, at the durability of [Options.Durability].
// The error is explained; see [Store.Explain].
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

// Delete does at once what [Store.DeleteTo] does in a batch. When it returns, the
// deletion has the durability of [Options.Durability]; so have the other writes of the
// store. The errors are those of [Store.Append].
func (s *Store) Delete(ctx context.Context, stream string, expected Expected) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.DeleteTo(b, stream, expected) })
}

// Tombstone does at once what [Store.TombstoneTo] does in a batch.
func (s *Store) Tombstone(ctx context.Context, stream string, expected Expected) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.TombstoneTo(b, stream, expected) })
}

// Truncate does at once what [Store.TruncateTo] does in a batch.
func (s *Store) Truncate(ctx context.Context, stream string, before mainstem.Version) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.TruncateTo(b, stream, before) })
}

// Archive does at once what [Store.ArchiveTo] does in a batch. A stream without events
// is NotFound, one that is sealed already a [*SealedError].
func (s *Store) Archive(ctx context.Context, stream string) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.ArchiveTo(b, stream) })
}

// Unarchive does at once what [Store.UnarchiveTo] does in a batch.
func (s *Store) Unarchive(ctx context.Context, stream string) error {
	var failed error
	err := s.now(ctx, func(b *mainstem.Batch) { failed = s.UnarchiveTo(ctx, b, stream) })
	if failed != nil {
		return failed
	}
	return err
}

// Forget does at once what [Store.ForgetTo] does in a batch.
func (s *Store) Forget(ctx context.Context, stream string) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.ForgetTo(b, stream) })
}

// Rewrite does at once what [Store.RewriteTo] does in a batch.
func (s *Store) Rewrite(ctx context.Context, stream string, version mainstem.Version, ev Event) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.RewriteTo(b, stream, version, ev) })
}

// SetSettings does at once what [Store.SetSettingsTo] does in a batch.
func (s *Store) SetSettings(ctx context.Context, stream string, v Settings) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.SetSettingsTo(b, stream, v) })
}

// ModifySettings does at once what [Store.ModifySettingsTo] does in a batch, again if others have
// changed the settings meanwhile, until ctx ends. It returns the new settings.
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

// modifyPause lets others that change the same settings have their turn.
var modifyPause = backoff.Policy{First: 50 * time.Microsecond, Max: 20 * time.Millisecond, Jitter: 1}

// SaveSnapshot does at once what [Store.SaveSnapshotTo] does in a batch.
func (s *Store) SaveSnapshot(ctx context.Context, snap Snapshot) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.SaveSnapshotTo(b, snap) })
}

// DeleteSnapshots does at once what [Store.DeleteSnapshotsTo] does in a batch.
func (s *Store) DeleteSnapshots(ctx context.Context, stream string) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.DeleteSnapshotsTo(b, stream) })
}

// SetCheckpoint does at once what [Store.SetCheckpointTo] does in a batch.
func (s *Store) SetCheckpoint(ctx context.Context, name string, position mainstem.Position) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.SetCheckpointTo(b, name, position) })
}

// MoveCheckpoint does at once what [Store.MoveCheckpointTo] does in a batch.
func (s *Store) MoveCheckpoint(ctx context.Context, cp Checkpoint, position mainstem.Position) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.MoveCheckpointTo(b, cp, position) })
}

// Park does at once what [Store.ParkTo] does in a batch.
func (s *Store) Park(ctx context.Context, p Parked) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.ParkTo(b, p) })
}

// DeleteCheckpoint does at once what [Store.DeleteCheckpointTo] does in a batch.
func (s *Store) DeleteCheckpoint(ctx context.Context, name string) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.DeleteCheckpointTo(b, name) })
}

// Unpark does at once what [Store.UnparkTo] does in a batch.
func (s *Store) Unpark(ctx context.Context, p Parked) error {
	return s.now(ctx, func(b *mainstem.Batch) { s.UnparkTo(b, p) })
}
