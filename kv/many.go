package kv

import (
	"context"
	"errors"
	"iter"

	"github.com/mainstemdev/mainstem"
)

// Pair is a key and its value.
type Pair[T any] struct {
	Key   string
	Value T
}

// GetMany returns the entries of keys, in the order of keys, as of one moment. The entry of a key
// without a value has only its Key; see [Entry.Live]. A value that the codec cannot decode is
// Corrupt. More than [mainstem.MaxGetKeys] keys, or [mainstem.MaxGetKeyBytes] bytes of keys, are
// Invalid.
func (b *Bucket[T]) GetMany(ctx context.Context, keys ...string) ([]Entry[T], error) {
	if len(keys) == 1 {
		return b.getOne(ctx, keys[0])
	}
	names := make([][]byte, len(keys))
	entries := make([]Entry[T], len(keys))
	size := 0
	for _, key := range keys {
		if err := validateKey("get", b.space, key); err != nil {
			return nil, err
		}
		size += len(key)
	}
	all := make([]byte, 0, size)
	for i, key := range keys {
		all = append(all, key...)
		names[i], entries[i].Key = all[len(all)-len(key):len(all):len(all)], key
	}
	i := 0
	for r, err := range b.log.GetMany(ctx, b.space, names) {
		if errors.Is(err, mainstem.ErrNotFound) {
			return entries, nil // there is no such table
		}
		if err != nil {
			return nil, err
		}
		if r.Version != 0 {
			if entries[i], err = b.entry("get", keys[i], &r, opOf(&r), lent); err != nil {
				return nil, err
			}
		}
		i++
	}
	return entries, nil
}

// getOne is GetMany of one key, for which Get is faster.
func (b *Bucket[T]) getOne(ctx context.Context, key string) ([]Entry[T], error) {
	e, err := b.Get(ctx, key)
	if errors.Is(err, mainstem.ErrNotFound) {
		return []Entry[T]{{Key: key}}, nil
	}
	if err != nil {
		return nil, err
	}
	return []Entry[T]{e}, nil
}

// PutMany writes all pairs in one atomic batch and returns their revisions in the order of pairs.
// The options apply to each pair; a condition must hold for all of them. If the pairs exceed the
// limits of a batch (see [mainstem.Limits]), PutMany writes nothing and returns Invalid: use
// [Bucket.Import], which commits in chunks.
func (b *Bucket[T]) PutMany(ctx context.Context, pairs []Pair[T], opts ...PutOption) ([]Revision, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	s, o := scratches.Get().(*scratch), collect(b.valueIf(Condition{}), opts)
	for i := range pairs {
		var err error
		if s.buf, err = b.put(&s.batch, s.buf, "put", pairs[i].Key, pairs[i].Value, o); err != nil {
			return nil, err
		}
	}
	r, err := b.commit(ctx, s)
	if err != nil {
		return nil, hintImport(err)
	}
	s.release()
	return r.Versions, nil
}

// hintImport adds to err, if the batch was too large for PutMany, the hint to use Import.
func hintImport(err error) error {
	var e *mainstem.Error
	if x := (*IndexedError)(nil); errors.As(err, &x) {
		return err
	}
	if errors.As(err, &e) && e.Kind == mainstem.KindInvalid && e.Hint == "" {
		c := *e
		c.Hint = "PutMany commits all pairs in one batch; Import commits them in chunks"
		return &c
	}
	return err
}

// Defaults of [ImportOptions].
const (
	DefaultChunkPairs = 1000
	DefaultChunkBytes = 4 << 20
)

// ImportOptions configures [Bucket.Import]. Nil and zero fields mean the defaults.
type ImportOptions struct {
	ChunkPairs int         // pairs in one commit; default DefaultChunkPairs
	ChunkBytes int         // bytes of keys, values and metadata in one commit; default DefaultChunkBytes
	Write      []PutOption // options of the write of every pair
}

func (o *ImportOptions) withDefaults() ImportOptions {
	c := ImportOptions{ChunkPairs: DefaultChunkPairs, ChunkBytes: DefaultChunkBytes}
	if o != nil {
		c.Write = o.Write
		if o.ChunkPairs > 0 {
			c.ChunkPairs = o.ChunkPairs
		}
		if o.ChunkBytes > 0 {
			c.ChunkBytes = o.ChunkBytes
		}
	}
	return c
}

// Import writes the pairs of a sequence of any length in chunks. Each chunk is atomic; the import
// as a whole is not. Import returns how many pairs, from the first, are committed. After an error
// these stay, and the outcome of the error says whether the last chunk was written.
func (b *Bucket[T]) Import(ctx context.Context, pairs iter.Seq[Pair[T]], o *ImportOptions) (int64, error) {
	c := o.withDefaults()
	in := importer[T]{Bucket: b, ctx: ctx, o: c, each: collect(b.valueIf(Condition{}), c.Write)}
	for p := range pairs {
		if err := in.add(p); err != nil {
			return in.done, err
		}
	}
	err := in.flush()
	return in.done, err
}

// importer is one running Import.
type importer[T any] struct {
	*Bucket[T]
	ctx   context.Context
	o     ImportOptions
	each  settings
	s     scratch
	bytes int
	done  int64
}

func (in *importer[T]) add(p Pair[T]) error {
	n := in.s.batch.Len()
	var err error
	if in.s.buf, err = in.put(&in.s.batch, in.s.buf, "put", p.Key, p.Value, in.each); err != nil {
		return err
	}
	in.bytes += in.s.batch.Writes()[n].Size()
	if n+1 >= in.o.ChunkPairs || in.bytes >= in.o.ChunkBytes {
		return in.flush()
	}
	return nil
}

func (in *importer[T]) flush() error {
	n := in.s.batch.Len()
	if n == 0 {
		return nil
	}
	if _, err := in.commit(in.ctx, &in.s); err != nil {
		return err
	}
	in.done += int64(n)
	in.bytes = 0
	in.s.batch.Reset()
	in.s.buf = in.s.buf[:0]
	return nil
}
