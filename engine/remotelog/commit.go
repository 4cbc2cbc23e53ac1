package remotelog

import (
	"context"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/internal/message"
)

// Commit sends b to the server and returns when its log has committed it. See the
// package comment for what the network adds: an error of kind Unavailable says by its
// outcome whether the batch may have been written. A batch with an ID is tried again, and in
// sessions one without, whose outcome the server remembers.
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
	again := ifUnavailable
	if b.ID == "" {
		again = ifResumable
	}
	c := call{op: "commit", writes: true, resume: b.ID == ""}
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
