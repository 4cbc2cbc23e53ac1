package logcopy

import (
	"context"
	"errors"

	"github.com/mainstemdev/mainstem"
)

// keyPass goes over all records of one key on both sides.
type keyPass struct {
	*comparison
	sp    *space
	key   []byte
	batch *mainstem.Batch
	n     int64
	bytes int

	kept   bool               // the target has a record that stays
	gone   []mainstem.Version // records of the target that the source no longer has
	front  int                // how many of gone come before all that stays
	newest mainstem.Version   // of the target
}

// key compares all records of a key, and repairs them if that is allowed. A key that
// the source has written since is left for the next run.
func (p *comparison) key(ctx context.Context, sp *space, key []byte) error {
	if sp == nil {
		return nil
	}
	if p.snapshot == nil {
		moving, err := p.isMoving(ctx, sp, key)
		if err != nil || moving {
			return err
		}
	}
	k := keyPass{comparison: p, sp: sp, key: key, batch: mainstem.NewBatch()}
	if err := k.merge(ctx); err != nil {
		return err
	}
	k.removals(false)
	return k.flush(ctx)
}

// isMoving reports, and counts, whether the source has written the key after what is copied.
func (p *comparison) isMoving(ctx context.Context, sp *space, key []byte) (bool, error) {
	for rec, err := range p.read.Read(ctx, sp.info.Name, key, mainstem.Versions{Reverse: true, Limit: 1}) {
		if err != nil {
			return false, err
		}
		if rec.Position > p.upTo {
			p.moving++
			return true, nil
		}
	}
	return false, nil
}

// merge walks both sides by version.
func (k *keyPass) merge(ctx context.Context) error {
	s := walk(k.read.Read(ctx, k.sp.info.Name, k.key, mainstem.Versions{}))
	defer s.stop()
	t := walk(k.to.Read(ctx, k.sp.info.Name, k.key, mainstem.Versions{}))
	defer t.stop()
	written := false // after what is copied
	source := func(r *mainstem.Record) bool {
		if r.Position > k.upTo && !written {
			written = true
			k.moving++
		}
		return written || k.ends(r)
	}
	if err := errors.Join(s.step(source), t.step(k.ends)); err != nil {
		return err
	}
	var last mainstem.Version // of the source
	for s.ok || t.ok {
		var err error
		switch {
		case s.ok && t.ok && s.rec.Version == t.rec.Version:
			k.newest = t.rec.Version
			k.count(&s.rec)
			last = s.rec.Version
			err = errors.Join(k.both(ctx, &s.rec, &t.rec), s.step(source), t.step(k.ends))
		case t.ok && (!s.ok || t.rec.Version < s.rec.Version):
			k.newest = t.rec.Version
			k.extra(&t.rec, last)
			err = t.step(k.ends)
		default:
			last = s.rec.Version
			err = errors.Join(k.missing(ctx, &s.rec, t.ok), s.step(source))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// both is for a record that both sides have.
func (k *keyPass) both(ctx context.Context, s, t *mainstem.Record) error {
	if !k.kept {
		k.kept, k.front = true, len(k.gone)
	}
	what, content := unlike(s, t, k.mayBeLater(s))
	switch {
	case what == "":
	case !k.repair || !content:
		k.differ(k.sp.info.Name, k.key, s.Version, "the target has "+what)
	default:
		r := s.Clone()
		k.batch.Rewrite(k.sp.info.Name, k.key, r.Version, r.Value, r.Headers)
		k.n++
		if k.bytes += int(recordSize(&r)); k.bytes > k.o.BatchBytes {
			return k.flush(ctx)
		}
	}
	return nil
}

// extra is for a record that only the target has. One that it wrote itself, when a
// record expired, stays: the source will write it too.
func (k *keyPass) extra(t *mainstem.Record, last mainstem.Version) {
	if t.Tombstone == mainstem.Expired && t.Version > last {
		k.kept = true
		return
	}
	if !k.repair {
		k.differ(k.sp.info.Name, k.key, t.Version, "only the target has it")
		return
	}
	k.gone = append(k.gone, t.Version)
}

// missing is for a record that only the source has. It can be put at the end, after
// all that the target has of the key.
func (k *keyPass) missing(ctx context.Context, s *mainstem.Record, before bool) error {
	if s.Tombstone == mainstem.Expired {
		return nil // the target ends its record itself
	}
	if !s.Live() {
		if gone, err := k.agedOut(ctx, s); gone || err != nil {
			return err
		}
	}
	switch {
	case !k.repair:
		k.differ(k.sp.info.Name, k.key, s.Version, "only the source has it")
		return nil
	case (before || s.First() <= k.newest) && !s.Expires.IsZero() && !s.Expires.After(k.soon.Add(mostLife)):
		return nil // it was about to end, and so was left out
	case before || s.First() <= k.newest:
		k.differ(k.sp.info.Name, k.key, s.Version, "only the source has it, and the target has later ones")
		return nil
	}
	if k.sp.work.History == 1 {
		k.gone = nil // superseded
	}
	k.removals(true)
	if err := k.flush(ctx); err != nil {
		return err
	}
	r := s.Clone()
	k.w.heads.forget(k.w.headKey(k.sp, k.key))
	at := r.Time
	r.Time = k.w.clock // behind everything that is there
	if at.After(r.Time) {
		r.Time = at
	}
	if err := k.w.commitItems(ctx, []item{{sp: k.sp, rec: r, moved: true}}, k.w.notes.Position); err != nil {
		return err
	}
	k.newest, k.kept = r.Version, true
	k.repaired++
	return nil
}

// removals adds to the batch the removal of what the source no longer has. more says
// that records of the key follow.
func (k *keyPass) removals(more bool) {
	gone, name := k.gone, k.sp.info.Name
	k.gone = nil
	if len(gone) == 0 {
		return
	}
	k.n += int64(len(gone))
	if !k.kept {
		k.front = len(gone)
	}
	switch {
	case !k.kept && !more:
		k.batch.Add(mainstem.Write{Op: mainstem.OpForget, Space: name, Key: k.key})
		return
	case k.front > 1:
		k.batch.Truncate(name, k.key, gone[k.front-1]+1)
		gone = gone[k.front:]
	}
	for _, v := range gone {
		k.batch.Add(mainstem.Write{Op: mainstem.OpRemove, Space: name, Key: k.key, Version: v})
	}
}

func (k *keyPass) flush(ctx context.Context) error {
	err := k.change(ctx, k.sp, k.batch, k.n)
	k.batch, k.n, k.bytes = mainstem.NewBatch(), 0, 0
	return err
}
