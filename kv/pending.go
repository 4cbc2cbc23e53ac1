package kv

import "github.com/mainstemdev/mainstem"

// Pending returns the value that batch, as it is now, gives to key, for callers that alternate
// between reading a table and adding to a batch. Live is false if the batch removes the value;
// found is false if the batch does not write the key. Pending reads only the batch. Writes that
// rewrite or remove single revisions do not count.
func (b *Bucket[T]) Pending(batch *mainstem.Batch, key string) (value T, live, found bool, err error) {
	writes := batch.Writes()
	for i := len(writes) - 1; i >= 0; i-- {
		w := &writes[i]
		if w.Space != b.space || string(w.Key) != key {
			continue
		}
		switch w.Op {
		case mainstem.OpPut:
			r := mainstem.Record{Space: b.space, Key: w.Key, Value: w.Value}
			if value, err = b.value(w.Value, lent); err != nil {
				err = b.decodeError("pending", &r, err)
			}
			return value, true, true, err
		case mainstem.OpDelete, mainstem.OpPurge, mainstem.OpForget:
			return value, false, true, nil
		}
	}
	return value, false, false, nil
}
