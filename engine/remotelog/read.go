package remotelog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
	"unicode/utf8"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/message"
	wire "github.com/mainstemdev/mainstem/internal/session"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
)

// reader reads from a log, or from a snapshot of it.
type reader struct {
	l        *Log
	snapshot *snapshot // nil: the log itself
}

// id returns the ID of the snapshot on the server, or nil for the log.
func (r reader) id() []byte {
	if r.snapshot == nil {
		return nil
	}
	return r.snapshot.id
}

// check returns an error for a call that must not be sent: on a closed snapshot, following a
// snapshot, or with the name of a space that cannot be encoded.
func (r reader) check(c call, follow bool) error {
	switch {
	case r.snapshot != nil && r.snapshot.closed.Load():
		return c.fail(mainstem.KindClosed, mainstem.NoOutcome, errors.New("the snapshot was closed"))
	case r.snapshot != nil && follow:
		return c.fail(mainstem.KindUnsupported, mainstem.NoOutcome, errors.New("a snapshot never changes: there is nothing to follow"))
	}
	return c.reachable()
}

// reachable returns an error of kind NotFound for a space whose name cannot be sent.
func (c call) reachable() error {
	if utf8.ValidString(c.space) {
		return nil
	}
	return c.fail(mainstem.KindNotFound, mainstem.NotWritten, errors.New("the name is not valid UTF-8"))
}

// Get returns the newest record of a live key. Its bytes belong to the caller.
func (r reader) Get(ctx context.Context, space string, key []byte) (mainstem.Record, error) {
	c := call{op: "get", space: space, key: key}
	if err := r.check(c, false); err != nil {
		return mainstem.Record{}, err
	}
	var record mainstem.Record
	err := r.l.tries(ctx, c, ifLost, func(ctx context.Context, t *try) (e *mainstem.Error) {
		record, e = r.get(ctx, c, t)
		return e
	})
	return record, err
}

// get makes one attempt. In a session it uses no messages of Protobuf.
func (r reader) get(ctx context.Context, c call, t *try) (mainstem.Record, *mainstem.Error) {
	p := newRequest()
	defer putRequest(p)
	*p = message.AppendGetRequest(*p, c.space, c.key, r.id())
	body, there, e := r.l.askSession(ctx, c, wire.Get, *p, t)
	if e != nil {
		return mainstem.Record{}, e
	}
	var record mainstem.Record
	var err error
	if there {
		record, err = message.ParseGetResponse(body, c.space)
	} else {
		in := &pb.GetRequest{Space: c.space, Key: c.key, Snapshot: r.id()}
		out, e := askRPC[pb.GetRequest, pb.GetResponse](ctx, r.l, c, getMethod, in, t)
		if e != nil {
			return mainstem.Record{}, e
		}
		record, err = message.DecodeRecord(out.Record, nil)
	}
	if err != nil {
		return mainstem.Record{}, c.fail(mainstem.KindInternal, mainstem.NoOutcome, err)
	}
	return record, nil
}

// Head returns the position of the newest record of the log.
func (r reader) Head(ctx context.Context) (mainstem.Position, error) {
	c := call{op: "head"}
	if err := r.check(c, false); err != nil {
		return 0, err
	}
	out, err := ask(ctx, r.l, c, headMethod, &pb.HeadRequest{Snapshot: r.id()}, ifLost)
	if err != nil {
		return 0, err
	}
	return mainstem.Position(out.Head), nil
}

// GetMany yields the newest records of keys, in the order of keys. They show one moment, so if
// the connection is lost meanwhile, it ends with Unavailable.
func (r reader) GetMany(ctx context.Context, space string, keys [][]byte) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		s := &sequence{call: call{op: "get many", space: space}}
		if err := cmp.Or(mainstem.ValidateKeys(keys), r.check(s.call, false)); err != nil {
			yield(mainstem.Record{}, err)
			return
		}
		if len(keys) == 0 {
			return
		}
		s.open = func(ctx context.Context, t *try) (*recordStream, error) {
			return openStream(ctx, r.l, s.call, t, getManyMethod, &pb.GetManyRequest{Space: space, Keys: keys, Snapshot: r.id()})
		}
		m := many{space: space, keys: keys, yield: yield}
		s.run(ctx, r.l, m.lend)
		m.end()
	}
}

// many adds records of version 0 for the keys that are missing in the answer: the server sends
// only the records that exist.
type many struct {
	space string
	keys  [][]byte // not yielded yet
	yield func(mainstem.Record, error) bool
	over  bool // after an error, or when the loop body has ended the loop
}

func (m *many) lend(r mainstem.Record, err error) bool {
	if err != nil {
		m.over = true
		return m.yield(r, err)
	}
	for len(m.keys) > 0 && !m.over {
		key := m.keys[0]
		m.keys = m.keys[1:]
		if bytes.Equal(key, r.Key) {
			m.over = !m.yield(r, nil)
			return !m.over
		}
		m.missing(key)
	}
	if !m.over {
		m.over = true
		m.yield(mainstem.Record{}, call{op: "get many", space: m.space}.fail(mainstem.KindInternal, mainstem.NoOutcome,
			fmt.Errorf("the server sent a record of key %.40q, which is none that was asked for, or not in their order", r.Key)))
	}
	return false
}

func (m *many) missing(key []byte) {
	m.over = !m.yield(mainstem.Record{Space: m.space, Key: key}, nil)
}

// end yields records of version 0 for the keys after the last record of the server.
func (m *many) end() {
	for ; len(m.keys) > 0 && !m.over; m.keys = m.keys[1:] {
		m.missing(m.keys[0])
	}
}

// Scan yields the newest record of each key in rng. The records show one moment, so if the
// connection is lost meanwhile, Scan ends with Unavailable.
func (r reader) Scan(ctx context.Context, space string, rng mainstem.Range) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		s := &sequence{call: call{op: "scan", space: space}}
		if err := cmp.Or(rng.Validate(), r.check(s.call, false)); err != nil {
			yield(mainstem.Record{}, err)
			return
		}
		s.open = func(ctx context.Context, t *try) (*recordStream, error) {
			return openStream(ctx, r.l, s.call, t, scanMethod, message.EncodeRange(space, rng, r.id()))
		}
		s.run(ctx, r.l, yield)
	}
}

// Read yields the records of one key by version. With Follow it resumes after a lost connection;
// see the package comment.
func (r reader) Read(ctx context.Context, space string, key []byte, v mainstem.Versions) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		v := v // a copy, since the loop may run again
		s := &sequence{call: call{op: "read", space: space, key: key}, follow: v.Follow}
		if err := cmp.Or(v.Validate(), r.check(s.call, v.Follow)); err != nil {
			yield(mainstem.Record{}, err)
			return
		}
		s.open = func(ctx context.Context, t *try) (*recordStream, error) {
			return openStream(ctx, r.l, s.call, t, readMethod, message.EncodeVersions(space, key, v, r.id()))
		}
		if v.Follow {
			s.took, s.verify = followVersions(s.call, &v)
		}
		s.run(ctx, r.l, yield)
	}
}

// Feed yields the records of f in the order of the log. With Follow it resumes after a
// lost connection; see the package comment.
func (r reader) Feed(ctx context.Context, f mainstem.Filter) iter.Seq2[mainstem.Record, error] {
	return func(yield func(mainstem.Record, error) bool) {
		f := f // a copy, since the loop may run again
		s := &sequence{call: call{op: "feed"}, follow: f.Follow}
		if err := cmp.Or(f.Validate(), r.check(s.call, f.Follow)); err != nil {
			yield(mainstem.Record{}, err)
			return
		}
		s.open = func(ctx context.Context, t *try) (*recordStream, error) {
			return openStream(ctx, r.l, s.call, t, feedMethod, message.EncodeFilter(f, r.id()))
		}
		if f.Follow {
			s.took, s.verify = followFeed(s.call, &f)
		}
		s.run(ctx, r.l, yield)
	}
}

// followVersions returns two functions for a follower of one key. The first moves v behind each
// record that was yielded. The second returns an error if the space was dropped meanwhile, which
// ends the follower.
func followVersions(c call, v *mainstem.Versions) (func(mainstem.Version, mainstem.Position) bool, func(*pb.Following) *mainstem.Error) {
	took := func(version mainstem.Version, _ mainstem.Position) (more bool) {
		v.From = version + 1
		return (v.To == 0 || v.From <= v.To) && countDown(&v.Limit)
	}
	var created time.Time
	verify := func(f *pb.Following) *mainstem.Error {
		now := f.GetSpaceCreated().AsTime()
		if !created.IsZero() && !created.Equal(now) {
			return c.fail(mainstem.KindNotFound, mainstem.NoOutcome, errors.New("the space was dropped and created anew while the connection was lost"))
		}
		created = now
		return nil
	}
	return took, verify
}

// followFeed returns two functions for a follower of a feed. The first moves f behind each record
// that was yielded. The second returns an error if the log is shorter than what was yielded,
// which ends the follower.
func followFeed(c call, f *mainstem.Filter) (func(mainstem.Version, mainstem.Position) bool, func(*pb.Following) *mainstem.Error) {
	var seen mainstem.Position
	took := func(_ mainstem.Version, position mainstem.Position) (more bool) {
		f.After, seen = position, position
		return countDown(&f.Limit)
	}
	verify := func(following *pb.Following) *mainstem.Error {
		head := mainstem.Position(following.Head)
		if head >= seen {
			return nil
		}
		e := c.fail(mainstem.KindCorrupt, mainstem.NoOutcome, fmt.Errorf("position %d was read before the connection was lost, but the server's log ends at %d now", seen, head))
		e.Hint = "the server has another log or an older backup: read it anew"
		return e
	}
	return took, verify
}

// countDown decrements a limit that is not 0, and reports whether anything is left.
func countDown(limit *int) bool {
	if *limit == 0 {
		return true
	}
	*limit--
	return *limit > 0
}
