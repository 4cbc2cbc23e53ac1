package natskv

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mainstemdev/mainstem"
	"github.com/mainstemdev/mainstem/codec"
	"github.com/mainstemdev/mainstem/kv"
)

// A value that is too large for a message lies in the object store of its bucket's
// name, under a name of its own, and the message of its key refers to it:
//
//	header  Mainstem-Object: <name of the object>
//	body    {"object":"<name>","size":<bytes>}
//
// The object is written before the message and removed after the message that
// replaces it, so a reader of a reference finds its object, or a newer message. What
// is left over after a crash, or between writers that met, SweepObjects removes.

const (
	headerObject = "Mainstem-Object"
	// metaKey is in the metadata of an object: the key, with its table, that it is the value of.
	// Objects of other clients do not have it.
	metaKey = "mainstem.key"
	// payloadReserve is what headers may take of a message with a large value.
	payloadReserve = 4 << 10
)

// objectsDescription, with the bucket, describes the object stores that this package makes.
const objectsDescription = "large values of the key-value bucket "

func isReference(h nats.Header) bool { return len(h[headerObject]) > 0 }

// reference is the body of a message that refers to an object.
type reference struct {
	Object string `json:"object"`
	Size   int    `json:"size"`
}

// objects returns the object store of the bucket.
func (s *stream) objects(ctx context.Context, create *TableOptions) (jetstream.ObjectStore, error) {
	js, err := jetstream.NewWithAPIPrefix(s.store.nc, s.store.api)
	if err != nil {
		return nil, err
	}
	o, err := js.ObjectStore(ctx, s.bucket)
	if create == nil || !errors.Is(err, jetstream.ErrBucketNotFound) {
		return o, err
	}
	storage := jetstream.FileStorage
	if create.Memory {
		storage = jetstream.MemoryStorage
	}
	return js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{
		Bucket: s.bucket, Description: objectsDescription + s.bucket,
		Storage: storage, Replicas: max(create.Replicas, 1), Placement: create.Placement, Compression: create.Compress,
	})
}

// offload moves the body of w to the object store if it is too large.
func (b *Bucket[T]) offload(ctx context.Context, f *facts, op, key string, w *written) error {
	if b.o.Large != LargeObjects || int64(len(w.data)) <= b.store.nc.MaxPayload()-payloadReserve {
		return nil
	}
	if f.history != 1 {
		return b.refuse(op, key, fmt.Errorf("a large value in a bucket that keeps %d revisions: objects have none", f.history))
	}
	o, err := b.stream.objects(ctx, &b.o)
	if err == nil {
		name := rand.Text()
		meta := jetstream.ObjectMeta{Name: name, Description: w.full, Metadata: map[string]string{metaKey: w.full}}
		if _, err = o.Put(ctx, meta, bytes.NewReader(w.data)); err == nil {
			size := len(w.data)
			w.header = with(w.header, headerObject, name)
			w.data, err = codec.JSON.Append(nil, reference{name, size})
		}
	}
	if err != nil {
		return b.stream.failWrite(op, key, false, fmt.Errorf("store the object: %w", err))
	}
	return nil
}

// onload returns the entry of a message whose value is an object.
func (b *Bucket[T]) onload(ctx context.Context, key string, m *message) (kv.Entry[T], error) {
	for range attempts {
		data, err := b.object(ctx, m.header.Get(headerObject))
		if err == nil {
			full := *m
			full.data = data
			return b.entry("get", key, &full, false)
		}
		if !errors.Is(err, jetstream.ErrObjectNotFound) && !errors.Is(err, jetstream.ErrBucketNotFound) {
			return kv.Entry[T]{}, b.stream.fail("get", key, fmt.Errorf("read the object: %w", err))
		}
		_, token, err := b.locate("get", key)
		if err != nil {
			return kv.Entry[T]{}, err
		}
		newer, err := b.stream.fetchLeader(ctx, token)
		switch {
		case errors.Is(err, errNoMessage) || err == nil && operation(newer.header) != kv.OpUpdate:
			return kv.Entry[T]{}, b.stream.fail("get", key, errDeleted)
		case err != nil:
			return kv.Entry[T]{}, b.stream.fail("get", key, err)
		case newer.seq == m.seq:
			return b.lost(key, m)
		case !isReference(newer.header):
			return b.entry("get", key, &newer, false)
		}
		m = &newer
	}
	return kv.Entry[T]{}, b.stream.fail("get", key, fmt.Errorf("the value is replaced faster than it can be read: %w", errTimeout))
}

// lost is the answer to a reference whose object is not there.
func (b *Bucket[T]) lost(key string, m *message) (kv.Entry[T], error) {
	e := kv.Entry[T]{Key: key, Revision: kv.Revision(m.seq), Position: mainstem.Position(m.seq), Op: kv.OpUpdate, Modified: m.time}
	return e, &mainstem.Error{Kind: mainstem.KindCorrupt, Op: "get", Space: b.stream.bucket, Key: []byte(key),
		Err: fmt.Errorf("revision %d refers to the object %q, which is not there", m.seq, m.header.Get(headerObject))}
}

func (b *Bucket[T]) object(ctx context.Context, name string) ([]byte, error) {
	o, err := b.stream.objects(ctx, nil)
	if err != nil {
		return nil, err
	}
	return o.GetBytes(ctx, name)
}

// reference returns the name of the object that a key refers to, or "". What it
// does not find out is left to SweepObjects.
func (b *Bucket[T]) reference(ctx context.Context, token string) string {
	if b.o.Large != LargeObjects {
		return ""
	}
	m, err := b.stream.fetchLeader(ctx, token)
	if err != nil {
		return ""
	}
	return m.header.Get(headerObject)
}

// removeObject removes the object that is of no use after a write: the old one, or
// if the write did certainly not happen, that of the write itself.
func (b *Bucket[T]) removeObject(ctx context.Context, w *written, old string, err error) {
	if err != nil {
		var failed *mainstem.Error
		if old = w.header.Get(headerObject); !errors.As(err, &failed) || failed.Outcome != mainstem.NotWritten {
			return
		}
	}
	if old == "" {
		return
	}
	if o, err := b.stream.objects(ctx, nil); err == nil {
		_ = o.Delete(ctx, old) // what remains, SweepObjects finds
	}
}

// keyOf returns the key, with its table, whose value an object is, or was. It is false for an
// object of another client. Versions before the mark had only a description, with the key,
// and a name of their own making.
func keyOf(o *jetstream.ObjectInfo) (full string, ok bool) {
	if full, ok = o.Metadata[metaKey]; ok {
		return full, true
	}
	return o.Description, o.Description != "" && isRandomText(o.Name)
}

// isRandomText reports whether s looks like the result of rand.Text.
func isRandomText(s string) bool {
	return len(s) == 26 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

func listObjects(ctx context.Context, o jetstream.ObjectStore) ([]*jetstream.ObjectInfo, error) {
	list, err := o.List(ctx)
	if errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil, nil
	}
	return list, err
}

// leftObjects returns a function that removes what objects the bucket has now, once it is
// dropped. One that is made anew meanwhile keeps those that it gets.
func (s *stream) leftObjects(ctx context.Context) (remove func() error, err error) {
	o, err := s.objects(ctx, nil)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := listObjects(ctx, o)
	if err != nil {
		return nil, err
	}
	return func() error {
		for _, info := range list {
			if _, ours := keyOf(info); !ours {
				continue
			}
			if err := o.Delete(ctx, info.Name); err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
				return err
			}
		}
		return s.removeStore(ctx, o)
	}, nil
}

// removeStore removes the object store of the bucket if this package made it and nothing is
// in it.
func (s *stream) removeStore(ctx context.Context, o jetstream.ObjectStore) error {
	status, err := o.Status(ctx)
	if err != nil || status.Description() != objectsDescription+s.bucket {
		return err
	}
	list, err := listObjects(ctx, o)
	if err != nil || len(list) > 0 {
		return err
	}
	js, err := jetstream.NewWithAPIPrefix(s.store.nc, s.store.api)
	if err != nil {
		return err
	}
	if err := js.DeleteObjectStore(ctx, s.bucket); !errors.Is(err, jetstream.ErrBucketNotFound) {
		return err
	}
	return nil
}

// SweepObjects removes the objects of the bucket that no key refers to any more and
// that are older than age, and returns how many. Objects that other clients keep in the
// object store of the same name stay. Age must be longer than any write takes; an
// hour is safe.
func (b *Bucket[T]) SweepObjects(ctx context.Context, age time.Duration) (int, error) {
	o, err := b.stream.objects(ctx, nil)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, b.stream.fail("sweep", "", err)
	}
	list, err := listObjects(ctx, o)
	if err != nil {
		return 0, b.stream.fail("sweep", "", err)
	}
	n := 0
	for _, info := range list {
		full, ok := keyOf(info)
		if !ok || time.Since(info.ModTime) < age {
			continue
		}
		token, err := b.store.layout.token(full)
		if err != nil {
			continue // not an object of this layout
		}
		m, err := b.stream.fetchLeader(ctx, token)
		if err != nil && !errors.Is(err, errNoMessage) && !errors.Is(err, errNoBucket) {
			return n, b.stream.fail("sweep", full, err)
		}
		if m.header.Get(headerObject) == info.Name {
			continue
		}
		if err := o.Delete(ctx, info.Name); err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
			return n, b.stream.fail("sweep", full, err)
		}
		n++
	}
	return n, nil
}
