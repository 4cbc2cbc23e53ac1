package remotelog

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync/atomic"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/message"
	pb "github.com/mainstemdev/mainstem/wire/rpc/mainstem/v1"
)

// Commit sends b to the server and returns when its log has committed it. See the
// package comment for what the network adds: an error of kind Unavailable says by its
// outcome whether the batch may have been written. A batch with an ID is tried again, as is
// one without in a session that remembers its outcome, or with [Options.BatchIDs].
func (l *Log) Commit(ctx context.Context, b *mainstem.Batch) (mainstem.Receipt, error) {
	if err := b.Validate(l.o.Limits); err != nil {
		return mainstem.Receipt{}, err
	}
	encoder := l.batches.Get().(*message.Batch)
	defer func() {
		encoder.Reset()
		l.batches.Put(encoder)
	}()
	in, err := encoder.Encode(b)
	if err != nil {
		return mainstem.Receipt{}, err
	}
	c, again := call{op: "commit", writes: true}, ifUnavailable
	named := l.o.BatchIDs && b.ID == "" && b.Len() > 0
	if named {
		in.Id, c.persists, again = l.ids.next(), true, ifEnded
	} else if b.ID == "" {
		c.resume, again = true, ifResumable
	}
	out, err := ask(ctx, l, c, commitMethod, in, again)
	if named {
		out, err = l.resolve(ctx, c, in, out, err)
	}
	if err != nil {
		return mainstem.Receipt{}, b.Explained(ctx, err)
	}
	receipt, err := message.DecodeReceipt(out)
	if err != nil {
		return mainstem.Receipt{}, c.fail(mainstem.KindInternal, mainstem.Unknown, err)
	}
	return receipt, nil
}

// batchIDs makes IDs for batches that have none: random bytes, by which those of two Logs
// differ and which nobody can guess, and a number.
type batchIDs struct {
	random [16]byte
	last   atomic.Uint64
}

func newBatchIDs() *batchIDs {
	ids := new(batchIDs)
	_, _ = rand.Read(ids.random[:]) // it does not fail
	return ids
}

func (ids *batchIDs) next() []byte {
	return binary.BigEndian.AppendUint64(ids.random[:len(ids.random):len(ids.random)], ids.last.Add(1))
}

// resolve returns what became of a batch with an ID of the Log's own: out and err, unless the
// server refused the last try and an earlier one may have been written or still be on its way.
// Then a batch that writes nothing takes the ID. If the ID was taken, by the batch itself, the
// log returns the receipt of that; else no try that is still to come can be written.
func (l *Log) resolve(ctx context.Context, c call, in *pb.CommitRequest, out *pb.CommitResponse, err error) (*pb.CommitResponse, error) {
	if out != nil {
		out.Duplicate = false // the caller has committed it once
		return out, nil
	}
	e, ok := err.(*mainstem.Error)
	if !ok || e.Outcome != mainstem.Unknown {
		return nil, err
	}
	switch e.Kind {
	case mainstem.KindUnavailable, mainstem.KindCanceled, mainstem.KindClosed:
		return nil, err // nobody is left to ask
	}
	c.worst = mainstem.Unknown
	taken, failed := ask(ctx, l, c, commitMethod, &pb.CommitRequest{Id: in.Id}, ifEnded)
	switch {
	case failed != nil:
		return nil, err
	case len(taken.Versions) > 0: // and not the receipt of an earlier try of what writes nothing
		taken.Duplicate = false
		return taken, nil
	}
	e.Outcome = mainstem.NotWritten
	return nil, e
}
