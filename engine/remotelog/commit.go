package remotelog

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync/atomic"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/message"
	wire "github.com/mainstemdev/mainstem/internal/session"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
	"google.golang.org/protobuf/proto"
)

// Commit sends b to the server and returns when the log of the server has committed it, with the
// durability of b. See the package comment for failures of the network: the outcome of an error
// of kind Unavailable says whether the batch may have been written. Commit repeats batches with
// an ID, batches without one in a session that records their outcomes, and all batches that write
// with [Options.BatchIDs].
func (l *Log) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	if err := b.Validate(l.o.Limits); err != nil {
		return mainstem.Receipt{}, err
	}
	c, again := call{op: "commit", writes: true}, ifUnavailable
	var id []byte
	if l.o.BatchIDs && b.ID == "" && b.Len() > 0 {
		id, c.persists, again = l.ids.next(), true, ifEnded
	} else if b.ID == "" {
		c.resume, again = true, ifResumable
	}
	r, err := l.commit(ctx, c, b, id, again)
	if id != nil {
		r, err = l.resolve(ctx, c, id, r, err)
	}
	if err != nil {
		return mainstem.Receipt{}, b.Explained(ctx, err)
	}
	return r, nil
}

// commit commits b, with the given ID if there is one.
func (l *Log) commit(ctx context.Context, c call, b *mainstem.Batch, id []byte, again func(*try, *mainstem.Error) bool) (mainstem.Receipt, error) {
	p := newRequest()
	defer putRequest(p)
	encoder := l.encoders.Get().(*message.Encoder)
	request, err := encoder.AppendBatch(*p, b, id)
	l.encoders.Put(encoder)
	if err != nil {
		return mainstem.Receipt{}, err
	}
	*p = request
	var r mainstem.Receipt
	err = l.tries(ctx, c, again, func(ctx context.Context, t *try) (e *mainstem.Error) {
		r, e = l.commitOnce(ctx, c, request, t)
		return e
	})
	return r, err
}

// commitOnce makes one attempt. In a session it uses no messages of Protobuf.
func (l *Log) commitOnce(ctx context.Context, c call, request []byte, t *try) (mainstem.Receipt, *mainstem.Error) {
	body, there, e := l.askSession(ctx, c, wire.Commit, request, t)
	if e != nil {
		return mainstem.Receipt{}, e
	}
	var r mainstem.Receipt
	var err error
	if there {
		r, err = message.ParseReceipt(body)
	} else {
		in := new(pb.CommitRequest)
		if err := proto.Unmarshal(request[callSpace:], in); err != nil {
			return r, c.fail(mainstem.KindInvalid, mainstem.NotWritten, err)
		}
		out, e := askRPC[pb.CommitRequest, pb.CommitResponse](ctx, l, c, commitMethod, in, t)
		if e != nil {
			return r, e
		}
		r, err = message.DecodeReceipt(out)
	}
	if err != nil {
		return mainstem.Receipt{}, c.fail(mainstem.KindInternal, mainstem.Unknown, err)
	}
	return r, nil
}

// batchIDs makes IDs for batches without one: random bytes, which are unique for each Log and
// cannot be guessed, and a number.
type batchIDs struct {
	random [16]byte
	last   atomic.Uint64
}

func newBatchIDs() *batchIDs {
	ids := new(batchIDs)
	_, _ = rand.Read(ids.random[:]) // never fails
	return ids
}

func (ids *batchIDs) next() []byte {
	return binary.BigEndian.AppendUint64(ids.random[:len(ids.random):len(ids.random)], ids.last.Add(1))
}

// resolve finds the outcome of a batch with an ID made by the Log. It returns r and err
// unchanged, unless the server refused the last try while an earlier one may have been written or
// may still arrive. In that case it commits an empty batch with the same ID. If the ID was used,
// by the batch itself, the log returns the receipt of the batch. Otherwise the empty batch has
// taken the ID, and no earlier try can be written any more.
func (l *Log) resolve(ctx context.Context, c call, id []byte, r mainstem.Receipt, err error) (mainstem.Receipt, error) {
	if err == nil {
		r.Duplicate = false // for the caller it was committed once
		return r, nil
	}
	e, ok := err.(*mainstem.Error)
	if !ok || e.Outcome != mainstem.Unknown {
		return mainstem.Receipt{}, err
	}
	switch e.Kind {
	case mainstem.KindUnavailable, mainstem.KindCanceled, mainstem.KindClosed:
		return mainstem.Receipt{}, err // no server can be asked any more
	}
	c.worst = mainstem.Unknown
	taken, failed := l.commit(ctx, c, mainstem.NewBatch(), id, ifEnded)
	switch {
	case failed != nil:
		return mainstem.Receipt{}, err
	case len(taken.Versions) > 0: // and not the receipt of an earlier try of what writes nothing
		taken.Duplicate = false
		return taken, nil
	}
	e.Outcome = mainstem.NotWritten
	return mainstem.Receipt{}, e
}
