package model

import (
	"context"
	"iter"
	"time"

	"github.com/mainstemdev/mainstem"
)

// Get returns the newest record of a live key; its bytes belong to the caller.
func (l *Log) Get(ctx context.Context, space string, key []byte) (mainstem.Record, error) {
	if err := validateKey("get", space, key); err != nil {
		return mainstem.Record{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(ctx, "get"); err != nil {
		return mainstem.Record{}, err
	}
	return l.mu.get(space, key, l.nowLocked())
}

// GetMany yields the newest records of keys as they are when the loop begins.
func (l *Log) GetMany(ctx context.Context, space string, keys [][]byte) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		records, err := func() ([]mainstem.Record, error) {
			if err := mainstem.ValidateKeys(keys); err != nil || len(keys) == 0 {
				return nil, err
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			if err := l.usableLocked(ctx, "get many"); err != nil {
				return nil, err
			}
			return l.mu.getMany(space, keys, l.nowLocked())
		}()
		lend(records, err, yield)
	}
}

// Scan yields the newest record of each key in r as they are when the loop begins.
func (l *Log) Scan(ctx context.Context, space string, r mainstem.Range) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		records, err := func() ([]mainstem.Record, error) {
			if err := r.Validate(); err != nil {
				return nil, err
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			if err := l.usableLocked(ctx, "scan"); err != nil {
				return nil, err
			}
			return l.mu.scan(space, r, l.nowLocked())
		}()
		lend(records, err, yield)
	}
}

// Read yields the records of one key.
func (l *Log) Read(ctx context.Context, space string, key []byte, v mainstem.Versions) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		if err := validateRead(space, key, v); err != nil {
			yield(mainstem.Record{}, err)
			return
		}
		for {
			records, head, changed, err := l.readOnce(ctx, space, key, v)
			if !lend(records, err, yield) || !v.Follow {
				return
			}
			if v.Limit > 0 {
				if v.Limit -= len(records); v.Limit == 0 {
					return
				}
			}
			if v.To > 0 && head >= v.To {
				return // no later record can match
			}
			v.From = max(v.From, head+1)
			if err := l.wait(ctx, "read", changed); err != nil {
				yield(mainstem.Record{}, err)
				return
			}
		}
	}
}

func (l *Log) readOnce(ctx context.Context, space string, key []byte, v mainstem.Versions) ([]mainstem.Record, mainstem.Version, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(ctx, "read"); err != nil {
		return nil, 0, nil, err
	}
	records, head, err := l.mu.read(space, key, v, l.nowLocked())
	return records, head, l.mu.changed, err
}

// Feed yields the records of f in the order of the log.
func (l *Log) Feed(ctx context.Context, f mainstem.Filter) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		if err := f.Validate(); err != nil {
			yield(mainstem.Record{}, err)
			return
		}
		for {
			records, head, changed, err := l.feedOnce(ctx, f)
			if !lend(records, err, yield) || !f.Follow {
				return
			}
			if f.Limit > 0 {
				if f.Limit -= len(records); f.Limit == 0 {
					return
				}
			}
			f.After = max(f.After, head)
			if err := l.wait(ctx, "feed", changed); err != nil {
				yield(mainstem.Record{}, err)
				return
			}
		}
	}
}

func (l *Log) feedOnce(ctx context.Context, f mainstem.Filter) ([]mainstem.Record, mainstem.Position, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(ctx, "feed"); err != nil {
		return nil, 0, nil, err
	}
	return l.mu.feed(f, l.nowLocked()), l.mu.head, l.mu.changed, nil
}

// wait returns nil when changed is closed, else why waiting makes no sense.
func (l *Log) wait(ctx context.Context, op string, changed <-chan struct{}) error {
	began := time.Now()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return mainstem.Ended(ctx, op, began, "records")
	case <-l.done:
		return &mainstem.Error{Kind: mainstem.KindClosed, Op: op}
	}
}

// lend yields copies of records, then err, and reports whether to go on.
func lend(records []mainstem.Record, err error, yield func(mainstem.Record, error) bool) bool {
	for _, r := range records {
		if !yield(r.Clone(), nil) {
			return false
		}
	}
	if err != nil {
		yield(mainstem.Record{}, err)
		return false
	}
	return true
}

func validateRead(space string, key []byte, v mainstem.Versions) error {
	if err := v.Validate(); err != nil {
		return err
	}
	return validateKey("read", space, key)
}

func validateKey(op, space string, key []byte) error {
	if err := mainstem.ValidateKey(key); err != nil {
		return &mainstem.Error{Kind: mainstem.KindInvalid, Op: op, Space: space, Err: err}
	}
	return nil
}
