package kv

import (
	"errors"
	"fmt"

	"github.com/mainstemdev/mainstem"
)

var (
	errEmptyKey = errors.New("the key is empty")
	errNoFeed   = errors.New("the table has NoFeed: nothing can follow its changes")
)

// notWritten marks err as that of a write that certainly did not happen.
func notWritten(err error) error {
	var e *mainstem.Error
	if errors.As(err, &e) && e.Outcome == mainstem.NoOutcome {
		return e.WithOutcome(mainstem.NotWritten)
	}
	return err
}

func (b *Bucket[T]) encodeError(op, key string, err error) error {
	return &mainstem.Error{Kind: mainstem.KindInvalid, Op: op, Space: b.space, Key: []byte(key), Outcome: mainstem.NotWritten, Err: err}
}

func (b *Bucket[T]) decodeError(op string, r *mainstem.Record, err error) error {
	return &mainstem.Error{Kind: mainstem.KindCorrupt, Op: op, Space: b.space, Key: append([]byte(nil), r.Key...),
		Err:  fmt.Errorf("revision %d: %w", r.Version, err),
		Hint: "the value was written with another codec or type; read the table as []byte with codec.Raw to see it"}
}
