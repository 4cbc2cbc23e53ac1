package natslog

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/format"
)

// chunkRecords and chunkBytes bound what a sequence reads ahead.
const (
	chunkRecords = 256
	chunkBytes   = 1 << 20
)

func validateKey(op, space string, key []byte) error {
	if err := mainstem.ValidateKey(key); err != nil {
		return &mainstem.Error{Kind: mainstem.KindInvalid, Op: op, Space: space, Err: err}
	}
	return nil
}

// spaceLocked returns a space, or a NotFound error.
func (l *Log) spaceLocked(op, name string) (*space, error) {
	if sp := l.st.spaces[name]; sp != nil {
		return sp, nil
	}
	return nil, &mainstem.Error{Kind: mainstem.KindNotFound, Op: op, Space: name}
}

// Get implements [mainstem.Reader].
func (l *Log) Get(ctx context.Context, space string, key []byte) (mainstem.Record, error) {
	if err := validateKey("get", space, key); err != nil {
		return mainstem.Record{}, err
	}
	if err := l.ready(ctx, "get"); err != nil {
		return mainstem.Record{}, err
	}
	defer l.readers.enter()()
	for {
		r, err := l.newest(space, key)
		if err != nil {
			return mainstem.Record{}, err
		}
		b, err := l.body(ctx, r)
		if err == nil {
			return b.Own(space, key), nil
		}
		if !errors.Is(err, errGone) {
			return mainstem.Record{}, l.explain(ctx, "get", space, key, err)
		}
		if err := l.moved(ctx, r); err != nil {
			return mainstem.Record{}, l.explain(ctx, "get", space, key, err)
		}
	}
}

// newest returns the newest record of a key that has a live value.
func (l *Log) newest(space string, name []byte) (*record, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	sp, err := l.spaceLocked("get", space)
	if err != nil {
		return nil, err
	}
	if k := sp.keys[string(name)]; k != nil {
		now := l.nowLocked()
		if r := k.newest(&now); r != nil && r.tomb == mainstem.Live {
			return r, nil
		}
	}
	return nil, &mainstem.Error{Kind: mainstem.KindNotFound, Op: "get", Space: space, Key: bytes.Clone(name)}
}

// body reads the body of one record.
func (l *Log) body(ctx context.Context, r *record) (*format.Body, error) {
	p, ok := l.cache.get(r.seq)
	if !ok {
		ctx, cancel := context.WithTimeout(ctx, l.opts.Timeout)
		defer cancel()
		defer context.AfterFunc(l.ctx, cancel)()
		var err error
		if p, err = l.get(ctx, r.seq); err != nil {
			return nil, err
		}
	}
	return r.decode(p)
}

// damageWait is how long a live record must be missing before it is called damage, unless
// half of Options.Timeout is less: a
// server that has just become the leader may not have caught up with itself.
const damageWait = 10 * time.Second

// moved is called for a record whose message was not there. If another process has
// deleted it, after it had written that the record is elsewhere or dead, moved waits
// until this process knows, also from a new state. It returns nil if the record is worth
// looking for again.
func (l *Log) moved(ctx context.Context, r *record) error {
	ctx, cancel := context.WithTimeout(ctx, l.opts.Timeout)
	defer cancel()
	for began := time.Now(); ; {
		if err := l.catchUp(ctx); err != nil {
			return err
		}
		l.mu.RLock()
		dead := r.dead || !l.st.current(r.unit)
		l.mu.RUnlock()
		if dead {
			return nil
		}
		if _, err := l.get(ctx, r.seq); !errors.Is(err, errGone) {
			return err
		}
		if time.Since(began) > min(damageWait, l.opts.Timeout/2) || ctx.Err() != nil || !l.pause(retryPause) {
			return mainstem.Errorf(mainstem.KindCorrupt, "read", "message %d of stream %s is gone, and with it version %d of key %.64q", r.seq, l.opts.Stream, r.version, r.key.name)
		}
	}
}

// lend yields records with their bodies. gone is called for those that have died and
// left the stream since they were found: it returns an error or nil to leave them out.
func (l *Log) lend(ctx context.Context, op string, records []*record, gone func(*record) error, yield func(mainstem.Record, error) bool) bool {
	var lender format.Lender
	for len(records) > 0 {
		n := chunk(records)
		bodies, err := l.bodies(ctx, records[:n])
		if err != nil {
			r := records[0]
			return yield(mainstem.Record{}, l.explain(ctx, op, r.key.space.name, []byte(r.key.name), err)) && false
		}
		for i, r := range records[:n] {
			b := bodies[i]
			for b == nil {
				if r, b, err = l.chase(ctx, r); err != nil {
					return yield(mainstem.Record{}, l.explain(ctx, op, records[i].key.space.name, []byte(records[i].key.name), err)) && false
				}
				if r == nil {
					break
				}
			}
			if b == nil {
				if err := gone(records[i]); err != nil {
					yield(mainstem.Record{}, err)
					return false
				}
				continue
			}
			lender.Record.Space = r.key.space.name
			lender.Fill([]byte(r.key.name), b)
			if !yield(lender.Record, nil) {
				return false
			}
		}
		records = records[n:]
	}
	return true
}

// chase looks for a record whose message is gone. It returns no record if it is dead.
func (l *Log) chase(ctx context.Context, r *record) (*record, *format.Body, error) {
	if err := l.moved(ctx, r); err != nil {
		return nil, nil, err
	}
	if r = l.again(r); r == nil {
		return nil, nil, nil
	}
	b, err := l.body(ctx, r)
	if errors.Is(err, errGone) {
		return r, nil, nil
	}
	return r, b, err
}

// chunk returns how many of records are read at once.
func chunk(records []*record) int {
	bytes := 0
	for i, r := range records {
		if bytes += int(r.len); i > 0 && (bytes > chunkBytes || i == chunkRecords) {
			return i
		}
	}
	return len(records)
}

// leaveOut is for reads that show what is held when they come to it.
func leaveOut(*record) error { return nil }

// Scan implements [mainstem.Reader]. What is in the range is fixed when the loop
// begins. A scan that takes longer than Options.Grace while another process
// removes records may fail with Unavailable.
func (l *Log) Scan(ctx context.Context, space string, r mainstem.Range) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		if err := r.Validate(); err != nil {
			yield(mainstem.Record{}, err)
			return
		}
		if err := l.ready(ctx, "scan"); err != nil {
			yield(mainstem.Record{}, err)
			return
		}
		defer l.readers.enter()()
		records, err := l.scan(space, r)
		switch {
		case err != nil:
			yield(mainstem.Record{}, err)
		case r.KeysOnly:
			lendKeys(space, records, yield)
		default:
			l.lend(ctx, "scan", records, func(rec *record) error {
				return &mainstem.Error{Kind: mainstem.KindUnavailable, Op: "scan", Space: space, Key: []byte(rec.key.name),
					Hint: "the scan took longer than Options.Grace and the record is no more: scan in parts, or raise it"}
			}, yield)
		}
	}
}

// lendKeys yields records without headers and values, which needs no message.
func lendKeys(space string, records []*record, yield func(mainstem.Record, error) bool) {
	for _, r := range records {
		out := mainstem.Record{
			Space: space, Key: []byte(r.key.name), Version: mainstem.Version(r.version), Count: r.count,
			Position: mainstem.Position(r.pos), Time: time.Unix(0, r.time), Tombstone: r.tomb,
		}
		if r.expires != 0 && r.tomb == mainstem.Live {
			out.Expires = time.Unix(0, r.expires)
		}
		if !yield(out, nil) {
			return
		}
	}
}

// scan returns the newest record of each key in r.
func (l *Log) scan(name string, r mainstem.Range) ([]*record, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	sp, err := l.spaceLocked("scan", name)
	if err != nil {
		return nil, err
	}
	start, end, bounded := bounds(r)
	if bounded && end <= start {
		return nil, nil
	}
	now := l.nowLocked()
	var out []*record
	visit := func(k *key) bool {
		if !r.Reverse && bounded && k.name >= end || r.Reverse && k.name < start {
			return false
		}
		if rec := k.newest(&now); rec != nil && (rec.tomb == mainstem.Live || r.Tombstones) {
			out = append(out, rec)
		}
		return r.Limit == 0 || len(out) < r.Limit
	}
	if r.Reverse {
		sp.index.descend(end, bounded, visit)
	} else {
		sp.index.ascend(start, visit)
	}
	return out, nil
}

// bounds returns the keys that a range begins with and, if bounded, ends before.
func bounds(r mainstem.Range) (start, end string, bounded bool) {
	start = max(string(r.Start), string(r.Prefix))
	if r.End != nil {
		end, bounded = string(r.End), true
	}
	if after, ok := beyond(r.Prefix); ok && (!bounded || after < end) {
		end, bounded = after, true
	}
	return start, end, bounded
}

// beyond returns the first key after all that start with prefix, if there can be one.
func beyond(prefix []byte) (string, bool) {
	n := len(prefix)
	for n > 0 && prefix[n-1] == 0xff {
		n--
	}
	if n == 0 {
		return "", false
	}
	out := bytes.Clone(prefix[:n])
	out[n-1]++
	return string(out), true
}

// Read implements [mainstem.Reader].
func (l *Log) Read(ctx context.Context, space string, key []byte, v mainstem.Versions) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		err := v.Validate()
		if err == nil {
			err = validateKey("read", space, key)
		}
		if err == nil {
			err = l.ready(ctx, "read")
		}
		if err != nil {
			yield(mainstem.Record{}, err)
			return
		}
		var w chan struct{}
		if v.Follow {
			w = make(chan struct{}, 1)
			l.followers.Add(w, []string{space})
			defer l.followers.Remove(w, []string{space})
		}
		l.readOn(ctx, space, key, v, w, yield)
	}
}

// readOn reads, and with a follower goes on when there is more.
func (l *Log) readOn(ctx context.Context, space string, key []byte, v mainstem.Versions, w <-chan struct{}, yield func(mainstem.Record, error) bool) {
	for {
		leave := l.readers.enter()
		records, head, err := l.versions(space, key, v)
		if err != nil {
			leave()
			yield(mainstem.Record{}, err)
			return
		}
		ok := l.lend(ctx, "read", records, leaveOut, yield)
		leave()
		if !ok || w == nil {
			return
		}
		if v.Limit > 0 {
			if v.Limit -= len(records); v.Limit == 0 {
				return
			}
		}
		if v.To > 0 && mainstem.Version(head) >= v.To {
			return // no later record can match
		}
		v.From = max(v.From, mainstem.Version(head)+1)
		if err := l.wait(ctx, "read", w); err != nil {
			yield(mainstem.Record{}, err)
			return
		}
	}
}

// versions returns the records of one key that v asks for, and its newest version.
func (l *Log) versions(space string, name []byte, v mainstem.Versions) ([]*record, uint64, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	sp, err := l.spaceLocked("read", space)
	if err != nil {
		return nil, 0, err
	}
	k := sp.keys[string(name)]
	if k == nil {
		return nil, 0, nil
	}
	now := l.nowLocked()
	var out []*record
	take := func(r *record) bool { // reports whether to go on
		if !sp.hidden(r, &now) {
			out = append(out, r)
		}
		return v.Limit == 0 || len(out) < v.Limit
	}
	from, to := k.find(uint64(v.From)), len(k.recs)
	if v.To > 0 {
		for to = k.find(uint64(v.To)); to < len(k.recs) && k.recs[to].version-uint64(k.recs[to].count)+1 <= uint64(v.To); to++ {
		}
	}
	for i := from; i < to && !v.Reverse && take(k.recs[i]); i++ {
	}
	for i := to - 1; i >= from && v.Reverse && take(k.recs[i]); i-- {
	}
	return out, k.head, nil
}

// wait waits until w is woken.
func (l *Log) wait(ctx context.Context, op string, w <-chan struct{}) error {
	began := time.Now()
	select {
	case <-w:
		if l.ctx.Err() != nil {
			return l.ended(ctx, op, began, "records")
		}
		return l.broken()
	case <-ctx.Done():
		return l.ended(ctx, op, began, "records")
	case <-l.ctx.Done():
		return l.ended(ctx, op, began, "records")
	}
}
