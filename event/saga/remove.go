package saga

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/event"
	"github.com/mainstemdev/mainstem/internal/outcome"
	"github.com/mainstemdev/mainstem/kv"
)

// removal is what is kept of the sagas of a type that were removed: a row of the table saga.removed/<store>, whose
// key is the name of the type.
type removal struct {
	// Sent is the highest number of a message of any of them. A saga that starts counts on from it, so that the
	// ID of a command of a saga that was removed is never that of another one with its key.
	Sent uint64 `json:"sent"`
}

// ErrNotEnded is the error of [Records.Remove] for a saga that is under way, or that has commands left to carry
// out. It is Conflict.
var ErrNotEnded = mainstem.Errorf(mainstem.KindConflict, "remove saga", "only one that has ended, with all its commands carried out, can be removed")

// ended reports whether nothing is handled any more in this status.
func (s Status) ended() bool { return !s.live() && s != Compensating }

// Remove removes a saga that has ended, with its history. The others are [ErrNotEnded], and one that is not
// there is NotFound. Nothing is left of it, so a start event with its key starts a new saga, whose commands have IDs that
// those of the old one did not have; other events with its key are passed over as those of a saga that was never started.
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

// Removable returns the error that [Records.Remove] would return now, and removes nothing.
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

// removeTo removes a saga as part of b, on condition that it is as it was read. Messages are added only by commits that
// change the row, so that there are none now means that there are none then.
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

// countTo notes in b the highest number of a message that a saga of a type that is removed has sent.
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

func (r *Records) commit(ctx context.Context, b *mainstem.Batch) error {
	b.ID = "saga/" + event.NewID().String()
	_, err := outcome.Commit(ctx, r.log, b)
	return err
}

// PruneOptions say what [Records.Prune] removes. Nil and zero fields mean the defaults.
type PruneOptions struct {
	Saga string // only sagas of this type; default all
	// Statuses of what is removed. Default Completed and Compensated: the others that have ended can still be retried by
	// somebody who has found out why they failed. One in which a saga is under way is Invalid.
	Statuses []Status
	Before   time.Time // only those whose last step was before it; default now
	Limit    int       // at most so many; default all
	DryRun   bool      // only yield what would be removed
}

// prunePage is how many sagas one commit removes.
const prunePage = 100

// Prune removes sagas that have ended, as [Records.Remove] does, and yields each that was removed, as it was. Those that
// have commands left to carry out, and those that somebody changes meanwhile, stay. It reads what it
// removes, and a small row of each that has one of the statuses.
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
	expect func(*mainstem.Batch) // more conditions of each commit; nil: none
	left   int                   // of Limit
}

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

// errEnough ends a pruning whose caller has had enough.
var errEnough = errors.New("enough")

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

// aged returns the IDs of sagas that got a status long enough ago, after a key of its table, and the key to go on from; more is
// false if there are no others.
func (p *pruning) aged(ctx context.Context, status, prefix, after string) (ids []string, next string, more bool, err error) {
	for e, err := range p.r.status.List(ctx, &kv.Query{Prefix: prefix, After: after, KeysOnly: true}) {
		if err != nil {
			return nil, "", false, err
		}
		after = e.Key
		// The clock of the log may be ahead of that of the process that wrote the row: the row decides.
		if e.Modified.Before(p.o.Before.Add(time.Minute)) {
			ids = append(ids, e.Key[len(status):])
		}
		if len(ids) == prunePage {
			return ids, after, true, nil
		}
	}
	return ids, after, false, nil
}

// remove removes those of some sagas that may be removed, in one commit, and yields them.
func (p *pruning) remove(ctx context.Context, ids []string, yield func(Instance, error) bool) error {
	for tries := 1; len(ids) > 0; tries++ {
		b := mainstem.NewBatch()
		gone, err := p.removeTo(ctx, b, ids)
		if err == nil && len(gone) > 0 && !p.o.DryRun {
			err = p.r.commit(ctx, b)
		}
		if errors.Is(err, mainstem.ErrConflict) && afterConflict.Wait(ctx, tries) {
			if p.expect != nil && tries > 1 {
				return err // the caller's condition, perhaps
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

// removeTo removes those of some sagas that may be removed as part of b, and returns them.
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
