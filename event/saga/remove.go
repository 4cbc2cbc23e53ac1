package saga

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/outcome"
	"github.com/mainstemdev/mainstem/kv"
)

// Removal. A saga that has ended, and that has no messages, is removed with its row, its status and
// its history, in one commit on condition that its row is unchanged. Messages are added only by
// commits that change the row, so if there are none when the row was read, there are none at the
// commit.
//
// A saga with the same key may start later. Its commands must not have the IDs of the old one's,
// since the bus may remember those as carried out. So the largest message number of the removed
// sagas of a type is kept in one record (removal), and a new saga of the type numbers its messages
// from there. Starting a saga depends on that record (see [work.floor]), so it cannot miss a
// removal beside it.

// removal is the trace of the removed sagas of a type: the row of the table saga.removed/<store>
// whose key is the name of the type.
type removal struct {
	// Sent is the largest message number of the removed sagas. It only grows.
	Sent uint64 `json:"sent"`
}

// ErrNotEnded is the error of [Records.Remove] for a saga that has not ended, or that has messages
// left to carry out. It is of kind Conflict.
var ErrNotEnded = mainstem.Errorf(mainstem.KindConflict, "remove saga", "only one that has ended, with all its commands carried out, can be removed")

// ended reports whether a saga in this status has ended. A completed one may have commands left to
// carry out.
func (s Status) ended() bool { return !s.live() && s != Compensating }

// Remove removes a saga that has ended, with its history. Other sagas are [ErrNotEnded], and one
// that does not exist is NotFound. A start event with its key starts a new saga afterwards, whose
// commands have other IDs; other events with its key are counted as early.
func (r *Records) Remove(ctx context.Context, id string) error {
	for tries := 1; ; tries++ {
		b, err := r.removal(ctx, id)
		if err == nil {
			err = r.commit(ctx, b)
		}
		if errors.Is(err, ErrNotEnded) || !errors.Is(err, mainstem.ErrConflict) || !afterConflict.Wait(ctx, tries) {
			return err
		}
	}
}

// Removable returns the error that [Records.Remove] would return now. It removes nothing.
func (r *Records) Removable(ctx context.Context, id string) error {
	_, err := r.removal(ctx, id)
	return err
}

// removal returns the batch that removes a saga.
func (r *Records) removal(ctx context.Context, id string) (*mainstem.Batch, error) {
	e, err := r.rows.Get(ctx, id)
	if errors.Is(err, mainstem.ErrNotFound) {
		return nil, r.notFound(id)
	}
	if err != nil {
		return nil, err
	}
	b := mainstem.NewBatch()
	if err := r.removeTo(ctx, b, e); err != nil {
		return nil, err
	}
	return b, r.countTo(ctx, b, e.Value.Saga, e.Value.Sent)
}

// removeTo adds to b the removal of a saga, on condition that its row is unchanged.
func (r *Records) removeTo(ctx context.Context, b *mainstem.Batch, e kv.Entry[row]) error {
	if !e.Value.Status.ended() {
		return fmt.Errorf("saga %.100q is %s: %w", e.Key, e.Value.Status, ErrNotEnded)
	}
	for _, err := range r.inbox.Keys(ctx, &kv.Query{Prefix: e.Key + "\x00", Limit: 1}) {
		if err == nil {
			err = fmt.Errorf("saga %.100q has commands left: %w", e.Key, ErrNotEnded)
		}
		return err
	}
	r.rows.DeleteTo(b, e.Key, kv.IfRevision(e.Revision))
	r.status.DeleteTo(b, string(e.Value.Status)+"/"+e.Key)
	r.history.ForgetTo(b, e.Key)
	return nil
}

// countTo adds to b the write of the removal record of a type, if sent, the number of messages of a
// removed saga, is larger than the number there.
func (r *Records) countTo(ctx context.Context, b *mainstem.Batch, saga string, sent uint64) error {
	old, err := r.removed.Get(ctx, saga)
	if err != nil && !errors.Is(err, mainstem.ErrNotFound) {
		return err
	}
	if sent > old.Value.Sent {
		r.removed.PutTo(b, saga, removal{Sent: sent}, kv.IfRevision(old.Revision))
	}
	return nil
}

// commit commits b. Its outcome is unknown only if ctx ends, or the log takes no more commits.
func (r *Records) commit(ctx context.Context, b *mainstem.Batch) error {
	_, err := outcome.Commit(ctx, r.log, b)
	return err
}

// PruneOptions select the sagas that [Records.Prune] removes. Nil and zero fields mean the
// defaults.
type PruneOptions struct {
	Saga string // only sagas of this type. Default: of all types
	// Statuses of the sagas to remove. Default: Completed and Compensated. The others that have
	// ended may still be retried. A status in which a saga has not ended is Invalid.
	Statuses []Status
	Before   time.Time // only sagas whose last step was before it. Default: now
	Limit    int       // the largest number of sagas to remove; 0: no limit
	DryRun   bool      // yield the sagas, and do not remove them
}

// prunePage is the largest number of sagas that one commit removes.
const prunePage = 100

// Prune removes the selected sagas as [Records.Remove] does, in commits of up to 100, and yields
// each one after it was removed, as it was. Sagas with messages left to carry out stay. A saga that
// changes before the commit is checked again. Prune reads the rows that it removes, and a small row
// of each saga in one of the statuses. An error ends the sequence.
func (r *Records) Prune(ctx context.Context, o *PruneOptions) iter.Seq2[Instance, error] {
	p, err := r.prune(o)
	return func(yield func(Instance, error) bool) {
		if err == nil {
			err = p.run(ctx, yield)
		}
		if err != nil {
			yield(Instance{}, err)
		}
	}
}

// pruning is one call of Prune.
type pruning struct {
	r      *Records
	o      PruneOptions
	expect func(*mainstem.Batch) // adds conditions to each commit; nil: none
	left   int                   // how many sagas Limit still allows; unused if it is 0
}

// prune checks the options, and returns the call.
func (r *Records) prune(o *PruneOptions) (*pruning, error) {
	p := &pruning{r: r}
	if o != nil {
		p.o = *o
	}
	if p.o.Statuses == nil {
		p.o.Statuses = []Status{Completed, Compensated}
	}
	for _, s := range p.o.Statuses {
		if _, err := ParseStatus(string(s)); err != nil {
			return nil, err
		}
		if !s.ended() {
			return nil, mainstem.Refusef(mainstem.KindInvalid, "prune sagas", "a saga that is %s has not ended", s)
		}
	}
	if p.o.Limit < 0 {
		return nil, mainstem.Refusef(mainstem.KindInvalid, "prune sagas", "a limit of %d: want 0 (all) or more", p.o.Limit)
	}
	if p.o.Before.IsZero() {
		p.o.Before = time.Now()
	}
	p.left = p.o.Limit
	return p, nil
}

// errEnough ends a pruning: the caller has left its loop, or the limit is reached.
var errEnough = errors.New("enough")

// run removes the sagas, status by status.
func (p *pruning) run(ctx context.Context, yield func(Instance, error) bool) error {
	for _, s := range p.o.Statuses {
		prefix := string(s) + "/"
		if p.o.Saga != "" {
			prefix += p.o.Saga + "-"
		}
		for after, more := "", true; more; {
			var old []string
			var err error
			if old, after, more, err = p.aged(ctx, string(s)+"/", prefix, after); err == nil {
				err = p.remove(ctx, old, yield)
			}
			if errors.Is(err, errEnough) {
				return nil
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// aged returns the IDs of up to a page of sagas that have had a status for long enough, from the
// keys of saga.status that follow the key after. It also returns the key to continue from; more is
// false if there are no further keys. The result is a superset: removeTo checks the rows.
func (p *pruning) aged(ctx context.Context, status, prefix, after string) (ids []string, next string, more bool, err error) {
	for e, err := range p.r.status.List(ctx, &kv.Query{Prefix: prefix, After: after, KeysOnly: true}) {
		if err != nil {
			return nil, "", false, err
		}
		after = e.Key
		// Modified is by the clock of the log, Updated in the row by that of a process. So allow a
		// minute of difference here; removeTo compares Updated.
		if e.Modified.Before(p.o.Before.Add(time.Minute)) {
			ids = append(ids, e.Key[len(status):])
		}
		if len(ids) == prunePage {
			return ids, after, true, nil
		}
	}
	return ids, after, false, nil
}

// remove removes those of the sagas that are selected, in one commit, and yields them.
func (p *pruning) remove(ctx context.Context, ids []string, yield func(Instance, error) bool) error {
	for tries := 1; len(ids) > 0; tries++ {
		b := mainstem.NewBatch()
		gone, err := p.removeTo(ctx, b, ids)
		if err == nil && len(gone) > 0 && !p.o.DryRun {
			err = p.r.commit(ctx, b)
		}
		if errors.Is(err, mainstem.ErrConflict) && afterConflict.Wait(ctx, tries) {
			if p.expect != nil && tries > 1 {
				return err // it may be the condition of expect that fails
			}
			continue
		}
		if err != nil {
			return err
		}
		for i := range gone {
			if !yield(instanceOf(&gone[i]), nil) {
				return errEnough
			}
		}
		if p.left -= len(gone); p.o.Limit > 0 && p.left == 0 {
			return errEnough
		}
		return nil
	}
	return nil
}

// removeTo adds to b the removal of those of the sagas that are selected, and returns their rows.
func (p *pruning) removeTo(ctx context.Context, b *mainstem.Batch, ids []string) (gone []row, err error) {
	entries, err := p.r.rows.GetMany(ctx, ids...)
	if err != nil {
		return nil, err
	}
	sent := make(map[string]uint64)
	for _, e := range entries {
		if !e.Live() || !e.Value.Updated.Before(p.o.Before) || !slices.Contains(p.o.Statuses, e.Value.Status) {
			continue
		}
		if p.o.Limit > 0 && len(gone) == p.left {
			break
		}
		err := p.r.removeTo(ctx, b, e)
		if errors.Is(err, ErrNotEnded) {
			continue
		}
		if err != nil {
			return nil, err
		}
		sent[e.Value.Saga] = max(sent[e.Value.Saga], e.Value.Sent)
		gone = append(gone, e.Value)
	}
	for saga, n := range sent {
		if err := p.r.countTo(ctx, b, saga, n); err != nil {
			return nil, err
		}
	}
	if p.expect != nil {
		p.expect(b)
	}
	return gone, nil
}
