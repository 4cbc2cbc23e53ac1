package remotelog

import (
	"context"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/message"
)

// Commit sends b to the server and returns when its log has committed it. See the
// package comment for what the network adds: an error of kind Unavailable says by its
// outcome whether the batch may have been written, and a batch with an ID is tried
// again.
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
	again := never
	if b.ID != "" {
		again = ifUnavailable
	}
	c := call{op: "commit", writes: true}
	out, err := ask(ctx, l, c, commitMethod, in, again)
	if err != nil {
		return mainstem.Receipt{}, b.Explained(ctx, err)
	}
	receipt, err := message.DecodeReceipt(out)
	if err != nil {
		return mainstem.Receipt{}, c.fail(mainstem.KindInternal, mainstem.Unknown, err)
	}
	return receipt, nil
}
